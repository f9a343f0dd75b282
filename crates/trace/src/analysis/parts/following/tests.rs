use super::super::{Task, read};
use super::*;

/// What lenses elsewhere could not name is told as in a row.
#[test]
fn what_did_not_fit_is_in_the_summary() {
    let captures = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures"));
    let task = Task::new(vec![captures.join("v3_tcp_q1.pcap.gz")], None);
    let part = read(&task, |_| true).unwrap();
    let kind = |findings: &Findings| {
        let all = findings.summary["anomalies"].as_array().unwrap().clone();
        let mut found = all.into_iter();
        found.find(|it| it["kind"] == "entries_beyond_limit")
    };
    assert_eq!(kind(&part.clone().findings(0, &[]).unwrap()), None);
    let beyond = Beyond {
        entries: 3,
        ..Beyond::default()
    };
    let followed = Followed {
        files: 7,
        beyond,
        ..Followed::default()
    };
    let found = part
        .findings_with::<Apart>(0, &[], |_| Ok(followed))
        .unwrap();
    assert_eq!(kind(&found).unwrap()["count"], 3);
    assert_eq!(found.summary["files_named"], 7);
}
