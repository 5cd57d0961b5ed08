//! A JSON parser whose tree lives in a scope: one allocation a string or list, none to free.
//! When you would want it: a tree is built, looked at and thrown away, request by request.
//!
//! `json FILE` parses a file, `json --compare MIB` measures a document of so many MiB in a scope,
//! in a bumpalo arena and with the global allocator.

use std::fmt;

use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec as HeapVec;
use polyheap_region::{self as region, Scope};

/// Lists and objects inside each other at most.
const DEPTH_MAX: usize = 500;

/// A JSON value in a scope. The whole tree is `Copy`, so nothing in it wants dropping.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'r> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(f64),
    /// A string, escapes resolved
    Text(&'r str),
    /// A list
    List(&'r [Value<'r>]),
    /// An object, its members in order
    Object(&'r [(&'r str, Value<'r>)]),
}

/// What is wrong, and at which byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// Byte of the document.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// Where the pieces of a tree go.
pub trait Place<'r>: Copy {
    /// Copies text.
    fn text(self, text: &str) -> &'r str;

    /// Copies items.
    fn items<T: Copy>(self, items: &[T]) -> &'r [T];
}

impl<'r> Place<'r> for &Scope<'r, '_> {
    fn text(self, text: &str) -> &'r str {
        self.alloc_str(text)
    }

    fn items<T: Copy>(self, items: &[T]) -> &'r [T] {
        self.alloc_slice_copy(items)
    }
}

/// Parses a document into `place`, a scope. Unfinished lists wait on stacks in `scratch`.
///
/// # Errors
/// When the document is not JSON (RFC 8259), or nested more than 500 deep.
pub fn parse<'r>(
    document: &str,
    place: impl Place<'r>,
    scratch: &Heap,
) -> Result<Value<'r>, Error> {
    let mut parser = Parser {
        document: document.as_bytes(),
        at: 0,
        depth: 0,
        place,
        items: HeapVec::new_in(scratch),
        members: HeapVec::new_in(scratch),
        text: HeapVec::new_in(scratch),
    };
    let value = parser.value()?;
    parser.skip_space();
    if parser.at == document.len() { Ok(value) } else { parser.fail("more than one value") }
}

struct Parser<'d, 's, 'r, P> {
    document: &'d [u8],
    at: usize,
    depth: usize,
    place: P,
    items: HeapVec<Value<'r>, &'s Heap>,
    members: HeapVec<(&'r str, Value<'r>), &'s Heap>,
    text: HeapVec<u8, &'s Heap>,
}

impl<'r, P: Place<'r>> Parser<'_, '_, 'r, P> {
    fn value(&mut self) -> Result<Value<'r>, Error> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            _ => self.fail("no value"),
        }
    }

    fn nested(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<Value<'r>, Error>,
    ) -> Result<Value<'r>, Error> {
        if self.depth == DEPTH_MAX {
            return self.fail("nested too deep");
        }
        self.depth += 1;
        self.at += 1;
        let value = inside(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value<'r>, Error> {
        let start = self.items.len();
        if !self.takes(b']') {
            loop {
                let item = self.value()?;
                self.items.push(item);
                if self.takes(b']') {
                    break;
                }
                self.expect(b',', "no comma in a list")?;
            }
        }
        let items = self.place.items(&self.items[start..]);
        self.items.truncate(start);
        Ok(Value::List(items))
    }

    fn object(&mut self) -> Result<Value<'r>, Error> {
        let start = self.members.len();
        if !self.takes(b'}') {
            loop {
                self.skip_space();
                let name = self.string()?;
                self.expect(b':', "no colon behind a name")?;
                let member = (name, self.value()?);
                self.members.push(member);
                if self.takes(b'}') {
                    break;
                }
                self.expect(b',', "no comma in an object")?;
            }
        }
        let members = self.place.items(&self.members[start..]);
        self.members.truncate(start);
        Ok(Value::Object(members))
    }

    fn string(&mut self) -> Result<&'r str, Error> {
        if self.peek() != Some(b'"') {
            return self.fail("no string");
        }
        self.at += 1;
        let start = self.at;
        let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
        self.at += self.document[start..].iter().take_while(|byte| is_plain(byte)).count();
        if self.peek() == Some(b'"') {
            let plain = &self.document[start..self.at];
            self.at += 1;
            return self.keep(plain);
        }
        self.text.clear();
        self.text.extend_from_slice(&self.document[start..self.at]);
        self.escaped_string()
    }

    fn escaped_string(&mut self) -> Result<&'r str, Error> {
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(byte @ 0x20..) => self.text.push(byte),
                _ => return self.fail("a control character or the end in a string"),
            }
            self.at += 1;
        }
        self.at += 1;
        self.keep(&self.text)
    }

    fn keep(&self, text: &[u8]) -> Result<&'r str, Error> {
        match str::from_utf8(text) {
            Ok(text) => Ok(self.place.text(text)),
            Err(_) => self.fail("no text"),
        }
    }

    /// Resolves an escape and stops at its last byte.
    fn escape(&mut self) -> Result<(), Error> {
        self.at += 1;
        let byte = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.code_point(),
            _ => return self.fail("no such escape"),
        };
        self.text.push(byte);
        Ok(())
    }

    fn code_point(&mut self) -> Result<(), Error> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) && self.document[self.at + 1..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex()?;
            let is_half = (0xdc00..0xe000).contains(&low);
            if is_half {
                code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
            }
        }
        let Some(character) = char::from_u32(code) else { return self.fail("half a surrogate") };
        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads four digits behind the present byte and stops at the last.
    fn hex(&mut self) -> Result<u32, Error> {
        let digits = self.document.get(self.at + 1..self.at + 5).unwrap_or_default();
        if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return self.fail("no four digits");
        }
        self.at += 4;
        let digit = |code: u32, byte: &u8| code * 16 + char::from(*byte).to_digit(16).unwrap_or(0);
        Ok(digits.iter().fold(0, digit))
    }

    fn number(&mut self) -> Result<Value<'r>, Error> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let digits = str::from_utf8(&self.document[start..self.at]).unwrap_or_default();
        digits.parse().map(Value::Number).or_else(|_| self.fail("no number"))
    }

    fn digits(&mut self) -> Result<(), Error> {
        let count =
            self.document[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { self.fail("no digit") } else { Ok(()) }
    }

    fn word(&mut self, word: &str, value: Value<'r>) -> Result<Value<'r>, Error> {
        if !self.document[self.at..].starts_with(word.as_bytes()) {
            return self.fail("no such word");
        }
        self.at += word.len();
        Ok(value)
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Error> {
        if self.takes(byte) { Ok(()) } else { self.fail(what) }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.document.get(self.at).copied()
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, Error> {
        Err(Error { at: self.at, what })
    }
}

/// Returns the number of values in a tree, itself counted.
pub fn count(value: &Value<'_>) -> usize {
    1 + match value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.iter().map(|(_, member)| count(member)).sum(),
        _ => 0,
    }
}

/// Returns a document of about so many bytes.
pub fn generate(bytes: usize) -> String {
    let mut document = String::from("[");
    let mut number = 0u64;
    while document.len() < bytes {
        let comma = if number == 0 { "" } else { "," };
        let name = "abcdefghijklmnopqrstuvwxyz".get(..(number % 24) as usize).unwrap_or("");
        document += &format!(
            "{comma}{{\"id\":{number},\"name\":\"{name}\",\"quote\":\"a \\\"b\\\" \\u00e4\",\
             \"tags\":[\"x\",\"yy\",\"zzz\"],\"score\":{}.5e1,\"old\":null,\"on\":{}}}\n",
            number % 1000,
            number.is_multiple_of(3),
        );
        number += 1;
    }
    document + "]"
}

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("--compare") {
        let mebibytes = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(50);
        return compare::compare(mebibytes << 20);
    }
    let heap = Heap::builder().name("json").build();
    let document = match argument {
        Some(file) => std::fs::read_to_string(file).unwrap_or_default(),
        None => generate(1 << 20),
    };
    let start = std::time::Instant::now();
    region::scope(&heap, |r| match parse(&document, &*r, &heap) {
        Ok(value) => eprintln!("{} values in {:?}; {}", count(&value), start.elapsed(), r.stats()),
        Err(error) => eprintln!("{error}"),
    });
    eprintln!("afterwards: {}", heap.stats());
}

#[path = "json/compare.rs"]
mod compare;

#[cfg(test)]
#[path = "../tests/examples/json.rs"]
mod tests;
