// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The reader against what go-yaml 2 does, and against hostile input.
use proptest::prelude::*;

use super::*;

fn scalar_of(text: &str) -> String {
    let text = format!("k: {text}");
    let document = Document::parse(&text).unwrap();
    format!("{:?}", document.root().get("k").unwrap().scalar().unwrap())
}

fn refusal(text: &str) -> YamlError {
    Document::parse(text).expect_err("must be refused")
}

#[test]
fn plain_scalars_mean_what_go_yaml_takes_them_for() {
    let table = [
        ("on", "Bool(true)"),
        ("y", "Bool(true)"),
        ("OFF", "Bool(false)"),
        ("No", "Bool(false)"),
        ("true", "Bool(true)"),
        ("~", "Null"),
        ("", "Null"),
        ("null", "Null"),
        ("0x10", "Int(16)"),
        ("0o17", "Int(15)"),
        ("017", "Int(15)"),
        ("0b11", "Int(3)"),
        ("1_000", "Int(1000)"),
        ("-5", "Int(-5)"),
        ("+5", "Int(5)"),
        ("18446744073709551615", "Int(18446744073709551615)"),
        ("089", "Float(89.0)"),
        ("1.10", "Float(1.1)"),
        ("8e9", "Float(8000000000.0)"),
        (".5", "Float(0.5)"),
        ("2026-01-02", "Time"),
        ("2026-01-02T03:04:05Z", "Time"),
        ("2024-etcd", "Text(\"2024-etcd\")"),
        ("5m", "Text(\"5m\")"),
        ("1:30", "Text(\"1:30\")"),
        ("-", "Text(\"-\")"),
        ("yess", "Text(\"yess\")"),
        ("'on'", "Text(\"on\")"),
        ("\"12\"", "Text(\"12\")"),
        ("!!str 12", "Text(\"12\")"),
        ("!!int 12", "Int(12)"),
    ];
    for (text, expected) in table {
        if text == "-" {
            assert_eq!(format!("{:?}", resolve("-")), expected);
        } else {
            assert_eq!(scalar_of(text), expected, "{text}");
        }
    }
}

#[test]
fn a_key_given_twice_is_an_error_that_names_both_lines() {
    let error = refusal("name: a\ndata-dir: b\nname: c\n");
    assert_eq!((error.line, error.column), (3, 1));
    assert!(error.detail.contains("line 1"), "{error}");
}

#[test]
fn what_two_readers_could_read_differently_is_an_error() {
    for text in [
        "a: 1\n---\nb: 2\n",
        "a: &x {b: 1}\nc:\n  <<: *x\n",
        "? [a]\n: b\n",
        "a: &x [*x]\n",
        "a: *nowhere\n",
        ": b\n",
        "",
        "# only a comment\n",
        "a:\n\tb: 1\n",
        "a: 1\n\tb: 2\n",
        "a: [1, 2\n",
        "a: \"unterminated\n",
    ] {
        assert!(Document::parse(text).is_err(), "{text:?} was taken");
    }
}

#[test]
fn an_alias_is_its_target() {
    let document = Document::parse("a: &x [1, 2]\nb: *x\n").unwrap();
    assert_eq!(document.root().get("b").unwrap().elements().unwrap().count(), 2);
}

#[test]
fn an_alias_bomb_costs_nothing() {
    let mut text = String::from("a0: &a0 [x]\n");
    for level in 1..2_000 {
        let below = level - 1;
        text += &format!("a{level}: &a{level} [*a{below}, *a{below}, *a{below}, *a{below}]\n");
    }
    let document = Document::parse(&text).unwrap();
    assert_eq!(document.root().entries().unwrap().count(), 2_000);
    assert!(document.nodes.len() < 10_000);
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    assert!(Document::parse(&"[".repeat(100_000)).is_err());
    let nested: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(Document::parse(&nested).is_err());
}

#[test]
fn a_byte_order_mark_and_an_explicit_document_are_fine() {
    for text in ["\u{feff}name: x\n", "---\nname: x\n", "%YAML 1.1\n---\nname: x\n...\n", "name: x"] {
        let document = Document::parse(text).unwrap();
        assert_eq!(document.root().get("name").unwrap().scalar(), Some(Scalar::Text("x")), "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = Document::parse(&text);
    }

    #[test]
    fn nothing_yaml_like_makes_it_panic(text in "([ \\t\\n:?&*!|>'\"%@`{}\\[\\],#a-c0-9<.-]|\\n  ){0,120}") {
        let _ = Document::parse(&text);
    }

    #[test]
    fn quoted_text_is_always_text(text in "[ -~&&[^\"\\\\]]{0,20}") {
        let yaml = format!("k: \"{text}\"");
        let document = Document::parse(&yaml).unwrap();
        prop_assert_eq!(document.root().get("k").unwrap().scalar(), Some(Scalar::Text(&text)));
    }
}
