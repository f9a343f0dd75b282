// The parts of ECharts that the report uses, and nothing else (tree-shaken by the build).

import { init, use } from 'echarts/core';
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, TitleComponent } from 'echarts/components';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';

use([
  CustomChart, LineChart, ScatterChart, GridComponent, TitleComponent, CanvasRenderer, SVGRenderer,
]);

export { init };
