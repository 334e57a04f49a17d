//! Conversations as the engines' own sources and traces have them, and random ones.

use super::*;
use proptest::prelude::*;

fn heard(dialogue: &mut Dialogue, bytes: &[u8]) -> Result<Option<Reply>, WireError> {
    dialogue.handle_bytes(bytes);
    dialogue.poll_reply()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_first_version_is_lines() {
    let mut d = Dialogue::new(Version::First);
    let hello = text(d.request(&EngineRequest::Hello).unwrap());
    assert_eq!(hello, "cmd=init pmi_version=1 pmi_subversion=1\n");
    let all = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    assert_eq!(heard(&mut d, &all[..20]).unwrap(), None, "half a line is none");
    assert!(heard(&mut d, &all[20..]).unwrap().is_some());
    assert_eq!(text(d.request(&EngineRequest::Space).unwrap()), "cmd=get_my_kvsname\n");
    heard(&mut d, b"cmd=my_kvsname kvsname=kvs_7_0\n").unwrap().unwrap();
    let put = text(d.request(&EngineRequest::Put { key: "a", value: "b=1" }).unwrap());
    assert_eq!(put, "cmd=put kvsname=kvs_7_0 key=a value=b=1\n");
    heard(&mut d, b"cmd=put_result rc=0 msg=success\n").unwrap().unwrap();
    assert_eq!(text(d.request(&EngineRequest::Fence).unwrap()), "cmd=barrier_in\n");
    heard(&mut d, b"cmd=barrier_out\n").unwrap().unwrap();
    assert_eq!(
        text(d.request(&EngineRequest::Get { key: "a" }).unwrap()),
        "cmd=get kvsname=kvs_7_0 key=a\n"
    );
    let got = heard(&mut d, b"cmd=get_result rc=0 msg=success value=b=1\n").unwrap().unwrap();
    assert_eq!(got.value("value"), Some("b=1"));
    assert_eq!(text(d.request(&EngineRequest::Leave).unwrap()), "cmd=finalize\n");
    heard(&mut d, b"cmd=finalize_ack\n").unwrap().unwrap();
}

#[test]
fn the_second_version_says_lengths() {
    let mut d = Dialogue::new(Version::Second);
    let hello = text(d.request(&EngineRequest::Hello).unwrap());
    assert_eq!(hello, "cmd=init pmi_version=2 pmi_subversion=0\n");
    heard(&mut d, b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n").unwrap().unwrap();
    let join = text(d.request(&EngineRequest::Join { job: "7.0", rank: 3 }).unwrap());
    assert_eq!(join, "    51cmd=fullinit;pmijobid=7.0;pmirank=3;threaded=FALSE;");
    heard(&mut d, b"    41cmd=fullinit-response;rc=0;rank=3;size=4;").unwrap().unwrap();
    let mut d = Dialogue { asked: Some(("kvs-get", "kvs-get-response")), ..d };
    d.heard.clear();
    let reply = "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y;";
    let bytes = format!("{:6}{reply}", reply.len());
    for byte in &bytes.as_bytes()[..bytes.len() - 1] {
        assert_eq!(heard(&mut d, &[*byte]).unwrap(), None);
    }
    let got = heard(&mut d, b";").unwrap().unwrap();
    assert_eq!(got.value("value"), Some("x;y"), "two semicolons are one");
}

#[test]
fn refusals_and_strangers_are_told() {
    let answers: [&[u8]; 7] = [
        b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n",
        b"cmd=barrier_out\n",
        b"SSH-2.0-OpenSSH\n",
        b"\n",
        b"\xff\xfe\n",
        b"rc=0 cmd=response_to_init\n",
        &[b'x'; MAX_BYTES + 8],
    ];
    for answer in answers {
        let mut d = Dialogue::new(Version::First);
        d.request(&EngineRequest::Hello).unwrap();
        assert!(heard(&mut d, answer).is_err(), "{:?}", &answer[..answer.len().min(40)]);
    }
    let mut d = Dialogue::new(Version::First);
    for value in ["", "a b", "a\nb", "\u{e4}"] {
        assert!(d.request(&EngineRequest::Put { key: "k", value }).is_err(), "{value:?}");
    }
    d.asked = Some(("kvs-get", "kvs-get-response"));
    d.version = Version::Second;
    let missing = b"    40cmd=kvs-get-response;rc=0;found=FALSE;x;";
    assert!(matches!(
        heard(&mut d, missing),
        Err(WireError::Refused { .. } | WireError::Garbled(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(clump_test_tier::pick(300, 20_000)))]

    #[test]
    fn random_bytes_in_random_parts_are_an_answer_or_an_error(
        second in any::<bool>(),
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
    ) {
        let mut d = Dialogue::new(if second { Version::Second } else { Version::First });
        d.asked = Some(("get", "get_result"));
        for part in parts {
            if heard(&mut d, &part).is_err() {
                break;
            }
            prop_assert!(d.heard.len() <= MAX_BYTES + DIGITS + 1);
        }
    }

    #[test]
    fn words_of_the_protocol_in_any_order_never_panic(
        second in any::<bool>(),
        words in prop::collection::vec(prop::sample::select(vec![
            "cmd=", "get_result", "rc=0", "value=", ";", ";;", " ", "\n", "    12", "=", "found=FALSE", "x",
        ]), 0..30),
    ) {
        let mut d = Dialogue::new(if second { Version::Second } else { Version::First });
        d.asked = Some(("get", "get_result"));
        let _ = heard(&mut d, words.concat().as_bytes());
    }

    #[test]
    fn a_value_arrives_as_it_was_put(value in "[!-~]{1,300}") {
        for version in [Version::First, Version::Second] {
            let mut d = Dialogue::new(version);
            let put = d.request(&EngineRequest::Put { key: "k", value: &value }).unwrap();
            let reply = match version {
                Version::First => Reply::of_line(put.strip_suffix(b"\n").unwrap()),
                Version::Second => Reply::of_message(&put[DIGITS..]),
            };
            let reply = reply.unwrap();
            prop_assert_eq!(reply.value("value"), Some(value.as_str()));
        }
    }
}
