use super::*;

fn environment(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
}

#[test]
fn without_anything_the_defaults_hold() {
    let config = Config::layered(&[], |_| None, None).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!((config.spin_ns, config.lanes, config.stats), (0, 1024, false));
    assert!(config.entries().iter().all(|e| e.source == Source::Default));
}

#[test]
fn code_beats_environment_beats_file() {
    let table: toml::Table = "spin_ns = 1\nyield_ns = 2\nlanes = 3\nstats = true".parse().unwrap();
    let environment = environment(&[("CLUMP_SPIN_NS", "10"), ("CLUMP_YIELD_NS", "2_000")]);
    let config =
        Config::layered(&[("spin_ns", "100")], environment, Some(("c.toml", &table))).unwrap();
    assert_eq!((config.spin_ns, config.yield_ns, config.lanes), (100, 2000, 3));
    assert!(config.stats);
    let sources: Vec<Source> = config.entries().iter().map(|e| e.source).collect();
    use Source as S;
    let (decided, rest) = sources.split_at(4);
    assert_eq!(decided, [S::Code, S::Environment, S::File, S::File]);
    assert!(rest.iter().all(|source| *source == S::Default));
    let shown = config.to_string();
    assert!(shown.contains("spin_ns = 100 # ns, from the program"), "{shown}");
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
    let table: toml::Table = "spin = 1".parse().unwrap();
    let text = Config::layered(&[], |_| None, Some(("f.toml", &table))).unwrap_err().to_string();
    assert!(text.contains("spin_ns"), "{text}");
    assert!(Config::layered(&[("spin", "1")], |_| None, None).is_err());
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
