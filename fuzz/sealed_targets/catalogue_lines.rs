//! Any bytes as a catalogue: no panic, and what is read says what each line says as plain JSON.
#![no_main]

use bounded::fuzz_target;
use sealed::lines::Lines;
use serde_json::Value;

fn texts(value: Option<&Value>) -> Vec<&str> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice);
    list.unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let Some(found) = Lines::read(data) else {
        return;
    };
    let text = std::str::from_utf8(data).unwrap();
    let lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(found.run_id.len(), lines.len());
    let names = ["tps", "n", ""];
    let metrics: Vec<Vec<_>> = names.iter().map(|name| found.metric(name).collect()).collect();
    let (points, flags): (Vec<_>, Vec<_>) =
        found.point_id.values().zip(found.flags.values()).unzip();
    for (row, line) in lines.iter().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["run_id"], found.run_id[row].as_str());
        assert_eq!(value["point_id"], points[row].as_str());
        assert_eq!(value["block"], found.block[row]);
        assert_eq!(value["duration_ns"], found.duration_ns[row]);
        assert_eq!(texts(value.get("flags")), *flags[row]);
        let set = &found.metric_sets[found.metric_set[row]];
        assert_eq!(value["metrics"].as_object().unwrap().len(), set.names.len());
        for (name, values) in names.iter().zip(&metrics) {
            let there = value["metrics"].get(name).and_then(Value::as_f64);
            // The last digit of serde_json's own reading may be another.
            match (there, values[row]) {
                (Some(one), Some(other)) => assert!((one - other).abs() <= one.abs() * 1e-15),
                (one, other) => assert_eq!(one, other),
            }
        }
    }
});
