//! Options mean what nfs(5) says. Expected values are the manual page's own numbers.

use std::time::Duration;

use client::MountOptions;
use client::options::{KNOWN, Recovery, Transport};
use proptest::prelude::*;

fn parse(text: &str) -> MountOptions {
    MountOptions::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    MountOptions::parse(text).expect_err(text).to_string()
}

#[test]
fn defaults_are_the_manual_pages() {
    let tcp = parse("");
    assert_eq!(tcp.transport, Transport::Tcp);
    assert_eq!((tcp.timeout, tcp.retrans), (Duration::from_secs(60), 2));
    assert_eq!((tcp.recovery, tcp.sync), (Recovery::Hard, false));
    let times = tcp.attribute_times;
    let seconds = [
        times.file_min,
        times.file_max,
        times.directory_min,
        times.directory_max,
    ];
    assert_eq!(seconds.map(|time| time.as_secs()), [3, 60, 30, 60]);
    let udp = parse("udp");
    assert_eq!((udp.timeout, udp.retrans), (Duration::from_millis(1100), 3));
    assert_eq!(udp.mount_transport, Transport::Udp);
}

#[test]
fn sizes_are_replaced_and_rounded_and_it_is_said() {
    for (text, size) in [
        ("rsize=1024", 1024),
        ("rsize=1000", 4096),
        ("rsize=0", 4096),
        ("rsize=1025", 1024),
        ("rsize=4095", 3072),
        ("rsize=12k", 12_288),
        ("rsize=64K", 65_536),
        ("rsize=1m", 1_048_576),
        ("rsize=1048577", 1_048_576),
        ("rsize=4m", 1_048_576),
        ("udp,rsize=64k", 64_512),
    ] {
        let options = parse(text);
        assert_eq!(options.read_size_bytes, size, "{text}");
        let asked_exactly = ["rsize=1024", "rsize=12k", "rsize=64K", "rsize=1m"].contains(&text);
        assert_eq!(options.adjustments().is_empty(), asked_exactly, "{text}");
    }
    assert!(refused("rsize=8kb").contains("needs a size"));
    assert!(refused("wsize=-1").contains("needs a size"));
    assert!(refused("wsize=+8").contains("needs a size"));
    assert!(refused("wsize=").contains("needs a size"));
}

#[test]
fn an_unknown_option_names_the_nearest() {
    for (text, nearest) in [
        ("rsise=8k", Some("rsize")),
        ("no_ac", Some("noac")),
        ("timeout=3", Some("timeo")),
        ("nconect=2", Some("nconnect")),
        ("HARD", Some("hard")),
        ("max-requests=4", Some("max_requests")),
        ("quota", None),
    ] {
        let error = MountOptions::parse(text).expect_err(text);
        assert_eq!(error.nearest, nearest, "{text}");
    }
    let shown = refused("rsise=8k");
    assert_eq!(
        shown,
        "mount option 'rsise=8k': unknown; did you mean 'rsize'?"
    );
}

#[test]
fn contradictions_are_errors_and_repetitions_are_not() {
    for text in [
        "hard,soft",
        "sync,async",
        "ac,noac",
        "noac,async",
        "noac,actimeo=5",
        "acregmin=9,acregmax=5",
        "acregmin=9,actimeo=5",
        "tcp,proto=udp",
        "udp,nconnect=2",
        "rsize=8k,rsize=16k",
        "proto=tcp6,mountproto=udp",
        "cto,nocto",
        "writeback,sync",
        "noac,writeback",
    ] {
        MountOptions::parse(text).expect_err(text);
    }
    assert!(refused("noac,async").contains("noac"));
    for text in [
        "hard,hard",
        "rsize=8k,rsize=8192",
        "udp,nconnect=1",
        "actimeo=5,acregmin=5",
    ] {
        parse(text);
    }
}

#[test]
fn delays_are_by_operation_and_read_back_as_given() {
    let options = parse("call_delay=commit:2ms+WRITE:1500us+READ:0s");
    assert!(
        options
            .to_text()
            .ends_with(",call_delay=WRITE:1500us+COMMIT:2ms")
    );
    let delay_ns = |program, procedure| options.call_delays.of([program, 3, procedure]);
    let nfs = wire::programs::NFS;
    // RFC 1813: WRITE is procedure 7, COMMIT 21, READ 6. 100005 is MOUNT.
    assert_eq!(
        [7, 21, 6, 22].map(|number| delay_ns(nfs, number)),
        [1_500_000, 2_000_000, 0, 0]
    );
    assert_eq!(delay_ns(100_005, 7), 0);
    assert!(
        !parse("call_delay=READ:0ms")
            .to_text()
            .contains("call_delay")
    );
    for text in [
        "COMMIT",
        "COMMIT:2",
        "COMMIT:-2ms",
        "COMMIT:ms",
        "COMIT:2ms",
        "READ:11s",
        "READ:1ms+READ:2ms",
        "READ:1ms+",
        "",
    ] {
        assert!(
            refused(&format!("call_delay={text}")).contains("call_delay"),
            "{text}"
        );
    }
}

#[test]
fn noac_is_actimeo_zero_and_sync() {
    let options = parse("noac");
    assert!(options.sync && !options.attribute_cache);
    assert_eq!(
        options.attribute_times,
        client::options::AttributeTimes::OFF
    );
    assert_eq!(
        parse("actimeo=7").attribute_times.directory_max.as_secs(),
        7
    );
}

#[test]
fn a_bound_beyond_the_others_default_moves_it() {
    let times = parse("acregmin=100").attribute_times;
    assert_eq!(
        (times.file_min.as_secs(), times.file_max.as_secs()),
        (100, 100)
    );
    let times = parse("acdirmax=10").attribute_times;
    assert_eq!(
        (times.directory_min.as_secs(), times.directory_max.as_secs()),
        (10, 10)
    );
}

#[test]
fn other_versions_and_flavours_are_refused_in_words() {
    for text in ["vers=4.1", "nfsvers=2", "vers=4"] {
        assert!(refused(text).contains("version 3 only"), "{text}");
    }
    assert!(refused("vers=9").contains("no version"));
    assert!(refused("sec=krb5").contains("AUTH_SYS"));
    assert!(refused("lock").contains("nolock"));
    assert!(refused("proto=rdma").contains("RDMA"));
    assert!(refused("rsize").contains("needs a value"));
    assert!(refused("hard=1").contains("takes no value"));
    assert!(refused("nconnect=17").contains("1 to 16"));
    assert!(refused("timeo=0").contains("1 to 6000"));
}

#[test]
fn negotiation_follows_the_server() {
    let info = |rtmax, rtpref, wtmax, wtpref| wire::nfs3::FSINFO3resok {
        obj_attributes: None,
        rtmax,
        rtpref,
        rtmult: 0,
        wtmax,
        wtpref,
        wtmult: 0,
        dtpref: 0,
        maxfilesize: 0,
        time_delta: wire::nfs3::nfstime3 {
            seconds: 0,
            nseconds: 1,
        },
        properties: 0,
    };
    let mut options = parse("rsize=64k");
    options.negotiate(&info(32_768, 16_384, 1 << 20, 8192));
    assert_eq!(
        (options.read_size_bytes, options.write_size_bytes),
        (32_768, 8192)
    );
    assert_eq!(
        options.adjustments().len(),
        1,
        "{:?}",
        options.adjustments()
    );
    let mut options = parse("");
    options.negotiate(&info(0, 0, 0, 0));
    assert_eq!(options.read_size_bytes, 1 << 20);
    let mut options = parse("");
    options.negotiate(&info(u32::MAX, u32::MAX, 100, u32::MAX));
    assert_eq!(
        (options.read_size_bytes, options.write_size_bytes),
        (1 << 20, 100)
    );
}

proptest! {
    #[test]
    fn what_is_in_effect_parses_to_itself(
        names in proptest::collection::vec((0..KNOWN.len(), 0_u32..70_000), 0..6),
    ) {
        let words: Vec<String> = names
            .iter()
            .map(|(index, number)| match (KNOWN[*index], number % 2) {
                (name, 0) => name.to_owned(),
                ("proto" | "mountproto", _) => format!("{}=udp", KNOWN[*index]),
                (name, _) => format!("{name}={number}"),
            })
            .collect();
        if let Ok(options) = MountOptions::parse(&words.join(",")) {
            let again = MountOptions::parse(&options.to_text()).unwrap();
            prop_assert_eq!(again.effective(), options.effective());
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        let _ = MountOptions::parse(&text);
    }
}
