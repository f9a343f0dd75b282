// The parts of ECharts that the report uses, and nothing else (tree-shaken by the build).

import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { DataZoomComponent, GridComponent, LegendComponent } from 'echarts/components';
import { MarkAreaComponent, MarkLineComponent, TitleComponent } from 'echarts/components';
import { ToolboxComponent, TooltipComponent } from 'echarts/components';
import { VisualMapContinuousComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';

use([BarChart, CustomChart, LineChart, ScatterChart, CanvasRenderer, SVGRenderer]);
use([DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent]);
use([TitleComponent, ToolboxComponent, TooltipComponent, VisualMapContinuousComponent]);

export { init };
