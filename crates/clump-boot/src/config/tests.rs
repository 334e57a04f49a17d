use super::*;
use crate::{LAB_KEYS, NET_FAULT_KEYS, SvmFaults};

fn environment(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
}

#[test]
fn without_anything_the_defaults_hold() {
    let config = Config::layered(&[], |_| None, None).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!((config.send_timeout_ms, config.lanes, config.stats), (0, 1024, false));
    assert!(config.entries().iter().all(|e| e.source == Source::Default));
}

#[test]
fn code_beats_environment_beats_file() {
    let text = "lanes = 1\nstats = true\nsend_timeout_ms = 3\nnode_timeout_ms = 400";
    let table: toml::Table = text.parse().unwrap();
    let environment = environment(&[("CLUMP_LANES", "10"), ("CLUMP_SEND_TIMEOUT_MS", "2_000")]);
    let config =
        Config::layered(&[("lanes", "100")], environment, Some(("c.toml", &table))).unwrap();
    let timeouts = (config.send_timeout_ms, config.node_timeout_ms);
    assert_eq!((config.lanes, config.stats, timeouts), (100, true, (2000, 400)));
    let sources: Vec<Source> = config.entries().iter().map(|e| e.source).collect();
    use Source as S;
    let (decided, rest) = sources.split_at(4);
    assert_eq!(decided, [S::Code, S::File, S::Environment, S::File]);
    assert!(rest.iter().all(|source| *source == S::Default));
    let shown = config.to_string();
    assert!(shown.contains("send_timeout_ms = 2000 # ms, from the environment"), "{shown}");
    assert!(shown.parse::<toml::Table>().is_ok(), "{shown}");
}

#[test]
fn bad_values_name_the_culprit_and_the_range() {
    for bad in ["-1", "many", "1025", "3.5", "99999999999999999999"] {
        let error = Config::layered(&[], |n| (n == "CLUMP_LANES").then(|| bad.into()), None);
        let text = error.unwrap_err().to_string();
        for part in ["CLUMP_LANES", bad, "from 0 to 1024"] {
            assert!(text.contains(part), "{text}");
        }
    }
    let table: toml::Table = "stats = 'maybe'".parse().unwrap();
    let text = Config::layered(&[], |_| None, Some(("f.toml", &table))).unwrap_err().to_string();
    assert!(text.contains("`stats` in f.toml is `maybe`") && text.contains("true or false"));
}

#[test]
fn a_misspelt_key_is_an_error() {
    let table: toml::Table = "lane = 1".parse().unwrap();
    let text = Config::layered(&[], |_| None, Some(("f.toml", &table))).unwrap_err().to_string();
    assert!(text.contains("lanes, stats"), "{text}");
    assert!(Config::layered(&[("lane", "1")], |_| None, None).is_err());
    let former = Config::layered(&[("svm_faults", "scan")], |_| None, None).unwrap_err();
    assert!(former.to_string().contains("--lab svm.faults=.."), "{former}");
}

#[test]
fn a_missing_file_is_named() {
    let text = read_file("/nonexistent/clump.toml".as_ref()).unwrap_err().to_string();
    assert!(text.contains("/nonexistent/clump.toml") && text.contains("CLUMP_CONFIG"), "{text}");
}

#[test]
fn a_file_whose_name_is_no_text_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let name = [b"clump-gr\xf6\xdfe-", std::process::id().to_string().as_bytes()].concat();
    let path = std::env::temp_dir().join(OsStr::from_bytes(&name));
    std::fs::write(&path, "lanes = 7").unwrap();
    let table = read_file(path.as_os_str()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(table["lanes"].as_integer(), Some(7));
    let text = read_file(path.as_os_str()).unwrap_err().to_string();
    assert!(text.contains(r"gr\xf6\xdfe"), "{text}");
}

#[test]
fn the_table_is_consistent() {
    for key in KEYS.iter().chain(&TEXT_KEYS) {
        assert!(key.variable.strip_prefix("CLUMP_").unwrap().eq_ignore_ascii_case(key.name));
        assert!((key.least..=key.most).contains(&key.default), "{}", key.name);
        assert!(key.doc.ends_with('.'));
    }
    for key in LAB_KEYS.iter().chain(NET_FAULT_KEYS) {
        assert!((key.least..=key.most).contains(&key.default), "{}", key.name);
        assert!(
            key.doc.ends_with('.') && TEXT_KEYS.iter().any(|list| list.variable == key.variable)
        );
    }
}

#[test]
fn each_key_of_a_list_comes_from_where_it_prevails() {
    let text = "lab = 'svm.faults=scan,spin=1us,yield=2us'\nnet_faults = 'loss=1%'";
    let table: toml::Table = text.parse().unwrap();
    let environment = environment(&[("CLUMP_LAB", "spin=3us,yield=4us")]);
    let code = [("lab", "yield=5us")];
    let config = Config::layered(&code, environment, Some(("c.toml", &table))).unwrap();
    let lab = config.lab;
    assert_eq!((lab.svm_faults, lab.spin_ns, lab.yield_ns), (SvmFaults::Scan, 3_000, 5_000));
    assert_eq!(config.net_faults.loss_ppm, 10_000);
    // A process that gets the settings without their file has the same.
    assert_eq!(Config::of_settings(&config.settings()).unwrap().lab, lab);
    let shown = config.to_string();
    assert!(
        shown.contains("net_faults = \"loss=10000ppm\" # from the configuration file"),
        "{shown}"
    );
    let bad = |n: &str| (n == "CLUMP_NET_FAULTS").then(|| "los=1%".into());
    let why = Config::layered(&[], bad, None).unwrap_err().to_string();
    assert!(why.contains("a key of the variable CLUMP_NET_FAULTS is `los`"), "{why}");
}

#[test]
fn a_choice_is_made_by_name_and_read_back() {
    let of = |value: &'static str| {
        Config::layered(&[], move |n| (n == "CLUMP_NET_DRIVER").then(|| value.into()), None)
    };
    assert_eq!(Config::default().net_driver, NetDriver::Auto);
    let chosen = of("packet").unwrap();
    assert_eq!(chosen.net_driver, NetDriver::Packet);
    let shown = chosen.to_string();
    assert!(shown.contains("net_driver = \"packet\" # from the environment"), "{shown}");
    let table: toml::Table = shown.parse().unwrap();
    let again = Config::layered(&[], |_| None, Some(("c.toml", &table))).unwrap();
    assert_eq!(again.net_driver, NetDriver::Packet);
    let text = of("2").unwrap_err().to_string();
    assert!(text.contains("CLUMP_NET_DRIVER") && text.contains("auto, udp, packet, xdp"), "{text}");
}

#[test]
fn a_text_comes_from_where_numbers_come_from() {
    let table: toml::Table = "emu = 'L=+1us'\nlab_machine = '/tmp/m.json'".parse().unwrap();
    let environment = environment(&[("CLUMP_EMU", "o=+5us")]);
    let config = Config::layered(&[], environment, Some(("c.toml", &table))).unwrap();
    assert_eq!(config.emu(), "o=+5us");
    assert_eq!(config.machine_file(), Some("/tmp/m.json".into()));
    let shown = config.to_string();
    assert!(shown.contains("emu = \"o=+5us\" # from the environment"), "{shown}");
    assert!(shown.parse::<toml::Table>().is_ok(), "{shown}");
    assert_eq!(Config::default().emu(), "");
}
