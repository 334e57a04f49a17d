use super::*;
use proptest::prelude::*;

const UNKNOWN: [BaseParameters; 2] = [BaseParameters {
    o_s_ns: None,
    o_r_ns: None,
    g_ns: None,
    l_ns: None,
    big_g_ns_per_byte: None,
}; 2];

fn parse(text: &str) -> Result<KnobTable, KnobError> {
    KnobTable::parse(text, &UNKNOWN)
}

#[test]
fn a_text_turns_the_knobs_that_it_names() {
    let table = parse("o=+5us,g=+10us,L=+20us,G=+1ns/B,scope=net").unwrap();
    let row = table.get(KnobScope::Net, KnobClass::Short);
    assert_eq!((row.send_ns, row.receive_ns), (5_000, 5_000));
    assert_eq!((row.gap_ns, row.latency_ns), (10_000, 20_000));
    assert_eq!((row.byte_ps, row.stream_ps), (1_000, 1_000));
    assert!(table.get(KnobScope::Shm, KnobClass::Short).is_off());
    let table = parse(" L=+1ms , class=bulk ; o_s=+7ns,scope=shm,class=short").unwrap();
    for scope in [KnobScope::Shm, KnobScope::Net] {
        assert_eq!(table.get(scope, KnobClass::Bulk).latency_ns, 1_000_000);
        assert_eq!(table.get(scope, KnobClass::OneSided).latency_ns, 0);
    }
    assert_eq!(table.get(KnobScope::Shm, KnobClass::Short).send_ns, 7);
    let table = parse("L=+100us,capacity=8,scope=net").unwrap();
    assert_eq!(table.get(KnobScope::Net, KnobClass::OneSided).capacity, 8);
    assert_eq!(table.get(KnobScope::Shm, KnobClass::Short).capacity, 0);
    assert!(parse("").unwrap().is_off() && parse("o=+0ns").unwrap().is_off());
}

#[test]
fn what_is_no_knob_is_refused_with_the_remedy() {
    for bad in ["x=1us", "o", "o=", "o=+5", "o=-5us", "L=+11s", "G=+1us", "scope=disk", "o=+1e999s"]
    {
        let error = parse(bad).unwrap_err().to_string();
        assert!(error.contains("us") && !error.contains("panic"), "{bad}: {error}");
    }
    for bad in ["capacity=0", "capacity=-1", "capacity=65537", "capacity=8us"] {
        assert!(matches!(parse(bad), Err(KnobError::Capacity(_))), "{bad}");
    }
    let error = parse("L=20us").unwrap_err().to_string();
    assert!(error.contains("absolute") && error.contains("clump lab calibrate"), "{error}");
}

#[test]
fn absolute_values_are_beside_what_was_calibrated() {
    let mut bases = UNKNOWN;
    bases[1] = BaseParameters {
        o_s_ns: Some(400.0),
        o_r_ns: Some(600.0),
        g_ns: Some(900.0),
        l_ns: Some(3_000.0),
        big_g_ns_per_byte: Some(0.5),
    };
    let table = KnobTable::parse("o=5us,g=10us,L=20us,G=2ns/B,scope=net", &bases).unwrap();
    let row = *table.get(KnobScope::Net, KnobClass::Bulk);
    assert_eq!((row.send_ns, row.receive_ns), (4_600, 4_400));
    // A gap is a least interval, so that the absolute one is what it is.
    assert_eq!((row.gap_ns, row.latency_ns), (10_000, 17_000));
    assert_eq!((row.byte_ps, row.stream_ps), (1_500, 2_000));
    let table = KnobTable::parse("g=+10us,G=+2ns/B,scope=net", &bases).unwrap();
    let row = *table.get(KnobScope::Net, KnobClass::Bulk);
    assert_eq!((row.gap_ns, row.byte_ps, row.stream_ps), (10_900, 2_000, 2_500));
    let error = KnobTable::parse("L=2us,scope=net", &bases).unwrap_err().to_string();
    assert!(error.contains("3000 ns anyway"), "{error}");
}

#[test]
fn settings_are_listed_or_a_range() {
    assert_eq!(settings("L=+5us, +10us").unwrap(), ["L=+5us", "L=+10us"]);
    let range = settings("g=1us..100us/3").unwrap();
    assert_eq!(range, ["g=1000ns", "g=10000ns", "g=100000ns"]);
    let range = settings("G=+1ns/B..+4ns/B/3").unwrap();
    assert_eq!(range, ["G=+1000ps/B", "G=+2000ps/B", "G=+4000ps/B"]);
    for text in range {
        assert!(!parse(&text).unwrap().is_off());
    }
    for bad in ["L", "x=1us", "L=+5us..+1us/3", "L=+5us..+9us", "L=+5us..+9us/1", "L=0..+9us/3"] {
        assert!(settings(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn words_and_text_are_read_back(values in proptest::collection::vec(0_u64..60_000, 36)) {
        let mut words = [0; TABLE_WORDS];
        for (row, six) in words.chunks_exact_mut(ROW_WORDS).zip(values.chunks_exact(6)) {
            row[..5].copy_from_slice(&six[..5]);
            // Without a calibrated base both are the same.
            row[5] = row[4];
            row[6] = six[5];
        }
        let table = KnobTable::from_words(&words);
        prop_assert_eq!(table.to_words(), words);
        prop_assert_eq!(parse(&table.to_string()).unwrap(), table);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[oLgG_sr=+0-9a-zA-Z/;,. ]{0,40}") {
        let _ = parse(&text);
    }
}
