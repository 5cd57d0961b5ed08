//! Reading Rust as text: comments and literals apart from code, test items apart from the product,
//! use trees spread into paths. Knows nothing of the rules in `tidy.rs`.

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { ' ' }).collect()
}

/// Length of the comment or literal that `rest` begins with; 0 for code.
fn skipped_bytes(rest: &str) -> usize {
    let until = |from: usize, end: &str| {
        rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len())
    };
    let mut chars = rest.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('/'), Some('/'), _) => until(0, "\n") - usize::from(rest.contains('\n')),
        (Some('/'), Some('*'), _) => until(2, "*/"),
        (Some('r'), Some('#'), Some('"')) => until(3, "\"#"),
        (Some('\''), Some('\\'), Some(c)) => until(2 + c.len_utf8(), "'"),
        (Some('\''), Some(c), Some('\'')) => c.len_utf8() + 2,
        (Some('"'), ..) => {
            let mut end = 1;
            while !rest[end..].is_empty() && !rest[end..].starts_with('"') {
                let escape = rest[end..].starts_with('\\');
                end += rest[end..]
                    .chars()
                    .take(1 + usize::from(escape))
                    .map(char::len_utf8)
                    .sum::<usize>();
            }
            rest.len().min(end + 1)
        }
        _ => 0,
    }
}

/// The text with comments and literals blanked; lines stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_bytes(rest);
        let (head, tail) = rest.split_at(skipped.max(first.len_utf8()));
        code.push_str(&if skipped > 0 { blank(head) } else { head.into() });
        rest = tail;
    }
    code
}

/// `code` without what only tests and the compiler run (`#[cfg(test)]` items, `const` checks), and
/// without what says why it panics.
pub(crate) fn product_of(path: &str, code: &str) -> String {
    if path.split(['/', '.']).any(|name| name == "tests" || name == "models") {
        return String::new();
    }
    let mut product = code.to_string();
    let markers = ["#[cfg(test", "#[cfg(all(test", "const _:", "const {", "#[expect(clippy::panic"];
    for marker in markers {
        for (at, _) in code.match_indices(marker) {
            let end = at + item_bytes(&code[at..]);
            product.replace_range(at..end, &blank(&code[at..end]));
        }
    }
    product
}

/// Length up to the `;` or the closing brace that ends the item `code` begins in.
fn item_bytes(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '}' if depth == 1 => return at + 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Places where one of `tokens` stands as a whole word.
pub(crate) fn token_faults(path: &str, code: &str, tokens: &[&str], rule: &str) -> Vec<String> {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut faults = Vec::new();
    for token in tokens {
        for (at, _) in code.match_indices(token) {
            let before = is_word(token.chars().next()) && is_word(code[..at].chars().next_back());
            let after = is_word(token.chars().next_back())
                && is_word(code[at + token.len()..].chars().next());
            if !before && !after {
                faults.push(format!("src/{path}:{}: `{token}`: {rule}", line_of(code, at)));
            }
        }
    }
    faults
}

/// Spreads the use tree at the start of `rest` into whole paths.
pub(crate) fn spread(rest: &mut &str, prefix: &str, paths: &mut Vec<String>) {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('{') {
        *rest = inner;
        while !rest.is_empty() && !rest.starts_with('}') {
            spread(rest, prefix, paths);
            *rest = rest.trim_start_matches(|c| c != ',' && c != '}');
            *rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        return;
    }
    let word =
        rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(rest.len());
    let path = format!("{prefix}{}", &rest[..word]);
    *rest = &rest[word..];
    match rest.strip_prefix("::") {
        Some(tail) if word > 0 => {
            *rest = tail;
            spread(rest, &format!("{path}::"), paths);
        }
        _ => paths.push(path),
    }
}

/// Invariant ids, `[like-this]`, in the comments of `text`, each with its line.
pub(crate) fn ids_in(text: &str) -> Vec<(usize, String)> {
    let is_id = |id: &str| {
        id.contains('-')
            && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let comments = text
        .lines()
        .enumerate()
        .filter_map(|(line, text)| Some((line + 1, text.split_once("//")?.1)));
    let bracketed =
        comments.flat_map(|(line, text)| text.split('[').skip(1).map(move |part| (line, part)));
    let closed = bracketed
        .filter_map(|(line, part)| part.split_once(']').map(|(id, rest)| (line, id, rest)));
    closed
        .filter(|(_, id, rest)| is_id(id) && !rest.starts_with('('))
        .map(|(line, id, _)| (line, id.into()))
        .collect()
}
