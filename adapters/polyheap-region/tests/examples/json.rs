//! The parser against cases in the manner of the JSON Parsing Test Suite: `ACCEPTED` must parse,
//! `REFUSED` must not. And a large document, cut and changed.

use super::*;

const ACCEPTED: &[&str] = &[
    "[]",
    "{}",
    "[ ]",
    " [] ",
    "[[]   ]",
    "[\"\"]",
    "[null]",
    "[true]",
    "[false]",
    "null",
    "true",
    "0",
    "-0",
    "[-0]",
    "[-1]",
    "[123]",
    "[1E22]",
    "[1e+2]",
    "[1e-2]",
    "[123.456e78]",
    "[0e+1]",
    "[0E1]",
    "[20e1]",
    "[123.456789]",
    "[-123]",
    "[-0.000000000000000000000000000001]",
    "\"asd\"",
    "\" \"",
    "[1,null,null,null,2]",
    "[null, 1, \"1\", {}]",
    "[1\n]",
    "\t[\r\n2] ",
    "{\"a\":\"b\",\"c\":\"d\"}",
    "{\"a\":\"b\",\"a\":\"c\"}",
    "{\"\":0}",
    "{\"a\":[]}",
    "{\n\"a\": 1\n}",
    "[\"\\u0060\\u012a\\u12AB\"]",
    "[\"\\uD801\\udc37\"]",
    "[\"\\ud83d\\ude39\\ud83d\\udc8d\"]",
    "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "[\"\\\\u0000\"]",
    "[\"\\u0000\"]",
    "[\"a/*b*/c/*d//e\"]",
    "[\"\\\\a\"]",
    "[\"\u{2028}\u{10ffff}€\"]",
    "[\"\u{7f}\"]",
    "[\"\\uDBFF\\uDFFF\"]",
];

const REFUSED: &[&str] = &[
    "",
    " ",
    "[",
    "]",
    "{",
    "}",
    "[}",
    "{]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[,]",
    "[1,,2]",
    "[1 2]",
    "[\"a\"",
    "[\"a",
    "[\"",
    "[\"\\",
    "[\"\\\"",
    "[\"\\x00\"]",
    "[\"\\a\"]",
    "[\"\\u00A\"]",
    "[\"\\u00G0\"]",
    "[\"\\uD800\"]",
    "[\"\\uD800\\\"]",
    "[\"\\uD834\\uDd\"]",
    "[\"\\uDC00\"]",
    "[\"\\uD800\\u0061\"]",
    "[\"\t\"]",
    "[\"new\nline\"]",
    "[\"\0\"]",
    "['single']",
    "[a",
    "[nul]",
    "[tru]",
    "[truth]",
    "[True]",
    "nulll",
    "[NaN]",
    "[Infinity]",
    "[-Infinity]",
    "[-]",
    "[--1]",
    "[+1]",
    "[.5]",
    "[1.]",
    "[1.e1]",
    "[0.e1]",
    "[-.1]",
    "[01]",
    "[-012]",
    "[1e]",
    "[1e+]",
    "[1eE2]",
    "[0x42]",
    "[1_000]",
    "[1a]",
    "[1+2]",
    "[- 1]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\" 1}",
    "{:1}",
    "{1:1}",
    "{a:1}",
    "{\"a\":1,}",
    "{\"a\":1,,\"b\":2}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":\"b\"}/**/",
    "{\"a\":1}}",
    "[]]",
    "[1]x",
    "[1] [2]",
    "//",
    "[1//\n]",
    "\u{feff}[]",
    "[\u{b}1]",
    "[\u{a0}1]",
    "{\"a\":[1}",
    "[{\"a\":1]",
    "{\"a\"::1}",
    "*",
    "<null>",
    "[\u{c}]",
    "\"",
    "\"a",
    "é",
    "[é]",
];

fn parses(document: &str) -> bool {
    let heap = Heap::new();
    let is_parsed = region::scope(&heap, |r| parse(document, &*r, &heap).is_ok());
    assert_eq!(heap.stats().live_blocks, 0);
    is_parsed
}

#[test]
fn documents_are_accepted_and_refused_as_the_standard_says() {
    ACCEPTED.iter().for_each(|document| assert!(parses(document), "refused: {document:?}"));
    REFUSED.iter().for_each(|document| assert!(!parses(document), "accepted: {document:?}"));
}

#[test]
fn values_are_what_the_document_says() {
    let heap = Heap::new();
    region::scope(&heap, |r| {
        let document =
            r#"{"a": [1, -2.5e1, "x\ud83d\ude39\n"], "b": {"c": null, "d": [true, false]}}"#;
        let list = [Value::Number(1.0), Value::Number(-25.0), Value::Text("x😹\n")];
        let truths = [Value::Bool(true), Value::Bool(false)];
        let inner = [("c", Value::Null), ("d", Value::List(&truths))];
        let expected = [("a", Value::List(&list)), ("b", Value::Object(&inner))];
        let parsed = parse(document, &*r, &heap);
        assert_eq!(parsed, Ok(Value::Object(&expected)));
    });
}

#[test]
fn nesting_is_limited() {
    assert!(parses(&("[".repeat(500) + &"]".repeat(500))));
    assert!(!parses(&("[".repeat(501) + &"]".repeat(501))));
    assert!(!parses(&"[{\"a\":".repeat(100_000)));
}

#[test]
fn a_large_document_parses_and_every_cut_of_it_fails() {
    let heap = Heap::new();
    let document = generate(3 << 20);
    region::scope(&heap, |r| {
        let values = parse(&document, &*r, &heap).map(|value| count(&value));
        // 11 values an entry, and the list.
        assert_eq!(values, Ok(1 + 11 * document.matches("\"id\"").count()));
        assert!(r.stats().used_bytes > 1 << 20);
    });
    let short = generate(2000);
    (0..short.len()).filter(|&end| short.is_char_boundary(end)).for_each(|end| {
        assert!(!parses(&short[..end]), "cut at {end}");
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn changed_documents_never_do_worse_than_fail() {
    let heap = Heap::new();
    let document = generate(500);
    for at in 0..document.len() {
        for byte in [b'"', b'\\', b'[', b'}', b'0', b'u', b',', 0] {
            let mut changed = document.clone().into_bytes();
            changed[at] = byte;
            if let Ok(changed) = String::from_utf8(changed) {
                let values =
                    region::scope(&heap, |r| parse(&changed, &*r, &heap).map(|tree| count(&tree)));
                assert!(values.is_ok_and(|values| values >= 1) || values.is_err());
            }
        }
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn a_race_parses_the_same_document_everywhere() {
    let heap = Heap::new();
    let (document, bump) = (generate(100_000), bumpalo::Bump::new());
    let pieces = compare::Pieces::default();
    region::scope(&heap, |r| {
        let tree = parse(&document, &*r, &heap);
        assert!(tree.is_ok());
        assert_eq!(tree, parse(&document, &bump, &heap));
        assert_eq!(tree, parse(&document, &pieces, &heap));
    });
    compare::compare(100_000);
    assert_eq!(heap.stats().live_blocks, 0);
}
