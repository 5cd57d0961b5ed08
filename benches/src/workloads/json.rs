//! `json`: a real program's work. A document is parsed into a tree, the tree is transformed, the result is written out.
//!
//! The tree is made of ordinary vectors over the subject. The document, about 60 KB of 200 records, is drawn once by the
//! seeded generator. An operation is one document.

use super::Workload;
use crate::context::Context;
use crate::measure::time_loop;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use crate::via::Via;
use allocator_api2::vec::Vec as VecIn;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;

pub(crate) const JSON: Workload = Workload {
    name: "json",
    about: "parse a document, transform the tree, write it out",
    tasks,
    run,
};

const RECORDS: usize = 200;

fn tasks(_: &Options) -> Vec<Task> {
    vec![Task::new("json", "200 records", Field::MixedSizes)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Json(context))
}

struct Json<'a>(&'a Context);

impl Job for Json<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let document = document();
        let via = Via(subject);
        vec![time_loop(self.0, |documents| {
            for _ in 0..documents {
                let mut tree = Parser { rest: black_box(document.as_bytes()), via }.value();
                transform(&mut tree, via);
                let mut output = VecIn::new_in(via);
                write_out(&tree, &mut output);
                black_box(&output);
            }
        })]
    }
}

type Text<'a, S> = VecIn<u8, Via<'a, S>>;

enum Value<'a, S: Subject> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Text<'a, S>),
    List(VecIn<Value<'a, S>, Via<'a, S>>),
    Object(VecIn<(Text<'a, S>, Value<'a, S>), Via<'a, S>>),
}

/// Parser of well-formed documents without escapes, such as [`document`] draws.
struct Parser<'t, 'a, S> {
    rest: &'t [u8],
    via: Via<'a, S>,
}

impl<'t, 'a, S: Subject> Parser<'t, 'a, S> {
    fn value(&mut self) -> Value<'a, S> {
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.list(),
            b'"' => Value::Text(self.text()),
            b't' | b'f' | b'n' => self.word(),
            _ => self.number(),
        }
    }

    fn object(&mut self) -> Value<'a, S> {
        let mut members = VecIn::new_in(self.via);
        while self.take() != b'}' {
            if self.peek() == b'}' {
                continue;
            }
            let key = self.text();
            self.take();
            members.push((key, self.value()));
        }
        Value::Object(members)
    }

    fn list(&mut self) -> Value<'a, S> {
        let mut items = VecIn::new_in(self.via);
        while self.take() != b']' {
            if self.peek() != b']' {
                items.push(self.value());
            }
        }
        Value::List(items)
    }

    fn text(&mut self) -> Text<'a, S> {
        self.take();
        let bytes = self.take_while(|byte| byte != b'"');
        let mut text = VecIn::new_in(self.via);
        text.extend_from_slice(bytes);
        self.take();
        text
    }

    fn word(&mut self) -> Value<'a, S> {
        match self.take_while(|byte| byte.is_ascii_lowercase()) {
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            _ => Value::Null,
        }
    }

    fn number(&mut self) -> Value<'a, S> {
        let digits = self.take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-'));
        let digits = str::from_utf8(digits).unwrap_or_default();
        Value::Number(digits.parse().unwrap_or(f64::NAN))
    }

    fn peek(&self) -> u8 {
        self.rest[0]
    }

    fn take(&mut self) -> u8 {
        let byte = self.rest[0];
        self.rest = &self.rest[1..];
        byte
    }

    fn take_while(&mut self, is_taken: impl Fn(u8) -> bool) -> &'t [u8] {
        let length = self.rest.iter().position(|&byte| !is_taken(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

/// Drops nulls, renames keys, scales numbers, doubles short texts.
fn transform<'a, S: Subject>(value: &mut Value<'a, S>, via: Via<'a, S>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => *number *= 1.5,
        Value::Text(text) => text.extend_from_within(..text.len().min(16)),
        Value::List(items) => items.iter_mut().for_each(|item| transform(item, via)),
        Value::Object(members) => {
            members.retain(|(_, member)| !matches!(member, Value::Null));
            for (key, member) in members.iter_mut() {
                let mut renamed = VecIn::new_in(via);
                renamed.extend_from_slice(b"out_");
                renamed.extend_from_slice(key);
                *key = renamed;
                transform(member, via);
            }
        }
    }
}

fn write_out<S: Subject>(value: &Value<'_, S>, output: &mut Text<'_, S>) {
    match value {
        Value::Null => output.extend_from_slice(b"null"),
        Value::Bool(truth) => output.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Number(number) => write!(output, "{number}").expect("a vector takes all"),
        Value::Text(text) => write_text(text, output),
        Value::List(items) => {
            output.push(b'[');
            for (place, item) in items.iter().enumerate() {
                output.extend_from_slice(if place == 0 { b"" } else { b"," });
                write_out(item, output);
            }
            output.push(b']');
        }
        Value::Object(members) => {
            output.push(b'{');
            for (place, (key, member)) in members.iter().enumerate() {
                output.extend_from_slice(if place == 0 { b"" } else { b"," });
                write_text(key, output);
                output.push(b':');
                write_out(member, output);
            }
            output.push(b'}');
        }
    }
}

fn write_text<S: Subject>(text: &[u8], output: &mut Text<'_, S>) {
    output.push(b'"');
    output.extend_from_slice(text);
    output.push(b'"');
}

/// The document, the same in every process.
fn document() -> String {
    let mut rng = Rng::new(0);
    let mut text = String::from("[");
    for id in 0..RECORDS {
        let separator = if id == 0 { "" } else { "," };
        let name = words(&mut rng, 2);
        let about = words(&mut rng, 12);
        let tags: Vec<String> =
            (0..rng.between(1, 6)).map(|_| format!("\"{}\"", words(&mut rng, 1))).collect();
        let score = rng.below(100_000) as f64 / 8.0;
        write!(
            text,
            "{separator}{{\"id\":{id},\"name\":\"{name}\",\"about\":\"{about}\",\"tags\":[{}],\"score\":{score},\
             \"active\":{},\"parent\":null,\"place\":{{\"x\":{},\"y\":{},\"label\":\"{}\"}}}}",
            tags.join(","),
            id % 3 == 0,
            rng.below(1000),
            rng.below(1000),
            words(&mut rng, 1),
        )
        .expect("a string takes all");
    }
    text.push(']');
    text
}

fn words(rng: &mut Rng, count: usize) -> String {
    let word = |rng: &mut Rng| -> String {
        (0..rng.between(3, 10)).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
    };
    (0..count).map(|_| word(rng)).collect::<Vec<_>>().join(" ")
}
