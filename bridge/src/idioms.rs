//! Rewrites in a template's source before it is compiled, for what jinja2 as chat templates use it can do and minijinja
//! cannot. Each keeps line numbers and white-space marks as they are.
//!
//! * `{% generation %}` … `{% endgeneration %}` mark the assistant's tokens for training. They render as nothing, so they
//!   become an `if` that is always true.
//! * Lists are values in minijinja and cannot be changed in place. `{% set _ = ns.list.append(x) %}` becomes
//!   `{% set ns.list = ns.list + [x] %}`, and `{% set x = ns.list.pop(0) %}` becomes `{% set x = ns.list[0] %}` followed by
//!   `{% set ns.list = ns.list[1:] %}`. Only attributes of namespaces can be set again from inside a loop or macro, so only
//!   those are rewritten; on anything else the method stays and fails with its name.

use crate::renderer::{Failure, FailureKind};

/// Code in one tag, strings not counted. The engine's compiler takes time with the square of an expression's length; the longest
/// tag of the templates in the field has a few hundred bytes.
const MAX_TAG_CODE: usize = 8 << 10;

pub fn rewrite(source: &str) -> Result<String, Failure> {
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let length = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') => tag_length(tag, "}}", || line_of(source, rest, start))?,
            Some(b'%') => tag_length(tag, "%}", || line_of(source, rest, start))?,
            _ => 1,
        };
        let (tag, after) = tag.split_at(length);
        rest = after;
        if !tag.starts_with("{%") {
            out.push_str(tag);
        } else if Tag::split(tag).is_some_and(|tag| tag.statement.trim() == "raw") {
            // What follows is text up to the end mark, whatever it looks like.
            let end = end_of_raw(rest);
            out.push_str(tag);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            out.push_str(&rewrite_tag(tag).unwrap_or_else(|| tag.to_string()));
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn line_of(source: &str, rest: &str, start: usize) -> u32 {
    source[..source.len() - rest.len() + start].matches('\n').count() as u32 + 1
}

/// Length of a tag with its end mark, which does not count inside a string; all of the text when there is none.
fn tag_length(tag: &str, end: &str, line: impl Fn() -> u32) -> Result<usize, Failure> {
    let mut quote = None;
    let mut escaped = false;
    let mut code = 0;
    for (at, c) in tag.char_indices().skip(2) {
        match quote {
            Some(_) if std::mem::take(&mut escaped) => {}
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if tag[at..].starts_with(end) => return Ok(at + end.len()),
            None => {
                code += 1;
                if c == '\'' || c == '"' {
                    quote = Some(c);
                }
            }
        }
        if code > MAX_TAG_CODE {
            let message = format!("a tag has more than {MAX_TAG_CODE} bytes of code");
            return Err(Failure { kind: FailureKind::Limit, line: line(), message });
        }
    }
    Ok(tag.len())
}

/// Where the tag `{% endraw %}` begins.
fn end_of_raw(text: &str) -> usize {
    let is_end = |at: &usize| {
        let inside = text[at + 2..].trim_start_matches(['-', '+']).trim_start();
        inside.starts_with("endraw")
    };
    text.match_indices("{%").map(|(at, _)| at).find(is_end).unwrap_or(text.len())
}

/// A block tag without its marks: `{%-`, the statement, `-%}`.
struct Tag<'a> {
    open: &'a str,
    statement: &'a str,
    close: &'a str,
}

impl<'a> Tag<'a> {
    fn split(tag: &'a str) -> Option<Tag<'a>> {
        if tag.len() < 4 || !tag.ends_with("%}") {
            return None; // an unfinished tag at the end of the source
        }
        let has_mark = |c: Option<&u8>| matches!(c, Some(b'-' | b'+'));
        let bytes = tag.as_bytes();
        let open = if has_mark(bytes.get(2)) { 3 } else { 2 };
        let close = if tag.len() >= open + 3 && has_mark(bytes.get(tag.len() - 3)) { 3 } else { 2 };
        Some(Tag { open: &tag[..open], statement: &tag[open..tag.len() - close], close: &tag[tag.len() - close..] })
    }

    fn with(&self, statement: &str) -> String {
        // The statement's own line ends stay, so that errors further down name the right line.
        let lines = "\n".repeat(self.statement.matches('\n').count().saturating_sub(statement.matches('\n').count()));
        format!("{} {statement} {lines}{}", self.open, self.close)
    }
}

fn rewrite_tag(source: &str) -> Option<String> {
    let tag = Tag::split(source)?;
    match tag.statement.trim() {
        "generation" => return Some(tag.with("if true")),
        "endgeneration" => return Some(tag.with("endif")),
        _ => {}
    }
    let (target, expression) = tag.statement.trim().strip_prefix("set")?.split_once('=')?;
    let (target, expression) = (target.trim(), expression.trim());
    let (call, arguments) = expression.strip_suffix(')')?.split_once('(')?;
    let (list, method) = call.trim().rsplit_once('.')?;
    if !is_path(target, 1) || !is_path(list, 2) {
        return None;
    }
    match (method.trim(), arguments.trim()) {
        ("append", item) if is_one_expression(item) => Some(tag.with(&format!("set {list} = {list} + [{item}]"))),
        ("pop", "0") => Some(take(&tag, target, list, "0", "1:")),
        ("pop", "" | "-1") => Some(take(&tag, target, list, "-1", ":-1")),
        _ => None,
    }
}

fn take(tag: &Tag, target: &str, list: &str, index: &str, remaining: &str) -> String {
    // Nothing may be printed between the two tags, and only the outer marks may touch the text around them.
    let first = format!("{} set {target} = {list}[{index}] %}}", tag.open);
    let second = Tag { open: "{%-", ..Tag { open: tag.open, statement: tag.statement, close: tag.close } };
    first + &second.with(&format!("set {list} = {list}[{remaining}]"))
}

/// `a` or `a.b`: names joined by dots, `names` of them.
fn is_path(text: &str, names: usize) -> bool {
    let is_name = |name: &str| {
        name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split('.').count() == names && text.split('.').all(is_name)
}

/// The brackets of the text close inside it, so that `append(a) + (b)` is not taken for one argument.
fn is_one_expression(text: &str) -> bool {
    let mut depth = 0i32;
    let mut quote = None;
    let mut escaped = false;
    for c in text.chars() {
        match (quote, c) {
            (Some(_), _) if std::mem::take(&mut escaped) => {}
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => return false,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => return false,
            _ => {}
        }
    }
    depth == 0 && quote.is_none() && !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::MAX_TAG_CODE;

    fn rewrite(source: &str) -> String {
        super::rewrite(source).expect("no tag is too long")
    }

    #[test]
    fn generation_marks_become_a_block_that_always_renders() {
        assert_eq!(rewrite("a {%- generation -%} b {% endgeneration %}"), "a {%- if true -%} b {% endif %}");
    }

    #[test]
    fn lists_in_namespaces_can_grow_and_shrink() {
        assert_eq!(rewrite("{%- set _ = q.ids.append(f(x, 'a)')) -%}"), "{%- set q.ids = q.ids + [f(x, 'a)')] -%}");
        assert_eq!(
            rewrite("{%- set id = q.ids.pop(0) -%}"),
            "{%- set id = q.ids[0] %}{%- set q.ids = q.ids[1:] -%}"
        );
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in [
            "{% set x = [].append(1) %}",
            "{% set x = ids.append(1) %}",
            "{% set x = q.ids.append(1) + (2) %}",
            "{% if generation %}{{ a }}{% endif %}",
            "{%",
            "{%%}",
            "{%-%}",
            "{%- ",
            "{%-",
            "{% generation -",
            "plain {{ text }} { # } {",
            "{# {% generation %} it's #}",
            "{% raw %}{% generation %}{{ '{%- endraw -%}",
            "{{ '{% generation %}' }}{% set x = \"%} {% generation %}\" %}",
        ] {
            assert_eq!(rewrite(text), text);
        }
    }

    #[test]
    fn a_tag_with_too_much_code_is_refused_but_long_text_is_not() {
        let text = format!("{{{{ '{}' }}}}", "x".repeat(2 * MAX_TAG_CODE));
        assert_eq!(rewrite(&text), text);
        let failure = super::rewrite(&format!("\n{{{{ a{} }}}}", "+a".repeat(MAX_TAG_CODE))).unwrap_err();
        assert_eq!(failure.line, 2);
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(rewrite("{%\n generation\n %}x").matches('\n').count(), 2);
    }
}
