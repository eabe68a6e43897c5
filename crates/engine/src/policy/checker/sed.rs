//! What a sed program does: whether it runs commands, writes files or reads other ones. A program that cannot be read in
//! full is taken for one that may do anything.

use agentd_core::policy::Risk;

use super::paths;
use crate::policy::{command::word::Word, opinion::Opinion};

/// How sed is called.
#[derive(Default)]
pub(super) struct Call<'a> {
    scripts: Vec<&'a Word>,
    files: Vec<&'a Word>,
    in_place: bool,
    /// An option that nobody here knows, or one that names a file of commands.
    odd: Option<&'static str>,
}

impl<'a> Call<'a> {
    pub(super) fn read(arguments: &'a [Word]) -> Self {
        let mut call = Self::default();
        let mut options = true;
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            at += 1;
            let text = word.text.as_str();
            if !options || !text.starts_with('-') || text == "-" {
                call.files.push(word);
                continue;
            }
            match text {
                "--" => options = false,
                "--quiet" | "--silent" | "--regexp-extended" | "--separate" | "--null-data" | "--unbuffered"
                | "--posix" | "--sandbox" | "--debug" | "--version" | "--help" => {}
                _ if text.starts_with("--in-place") => call.in_place = true,
                "--expression" => {
                    call.scripts.extend(arguments.get(at));
                    at += 1;
                }
                _ if text.starts_with("--") => call.odd = Some("its sed program may stand in an option or a file"),
                _ => {
                    for (index, letter) in text.char_indices().skip(1) {
                        match letter {
                            'n' | 'E' | 'r' | 's' | 'z' | 'u' => continue,
                            // What follows the letter is the ending of the copy.
                            'i' => call.in_place = true,
                            'e' if index + 1 == text.len() => {
                                call.scripts.extend(arguments.get(at));
                                at += 1;
                            }
                            'f' => call.odd = Some("its sed program stands in a file"),
                            _ => call.odd = Some("its sed program may stand in an option"),
                        }
                        break;
                    }
                }
            }
        }
        if call.scripts.is_empty() && !call.files.is_empty() {
            call.scripts.push(call.files.remove(0));
        }
        call
    }

    /// What is dangerous about it.
    pub(super) fn check(&self) -> Option<Opinion> {
        if let Some(why) = self.odd {
            return Some(Opinion::asks(Risk::High, why));
        }
        if self.scripts.iter().any(|script| !script.is_static()) {
            return Some(Opinion::unknown("its sed program is put together while it runs"));
        }
        let does = self.scripts.iter().map(|script| deeds(&script.text));
        match does.reduce(Deeds::and).unwrap_or_default() {
            Deeds { unclear: true, .. } => Some(Opinion::asks(Risk::High, "its sed program cannot be read")),
            Deeds { runs: true, .. } => {
                Some(Opinion::asks(Risk::High, "its sed program can run commands or write files"))
            }
            Deeds { reads: true, .. } => Some(Opinion::asks(Risk::High, "its sed program reads other files")),
            Deeds { .. } => None,
        }
    }

    /// Whether it only shows what its files hold.
    pub(super) fn only_looks(&self) -> bool {
        self.check().is_none() && !self.in_place && !self.scripts.is_empty()
    }

    /// The files that it changes.
    pub(super) fn changed(&self) -> &[&'a Word] {
        if self.in_place { &self.files } else { &[] }
    }
}

/// What a program does besides showing lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Deeds {
    runs: bool,
    reads: bool,
    unclear: bool,
}

impl Deeds {
    fn and(self, other: Self) -> Self {
        Self { runs: self.runs || other.runs, reads: self.reads || other.reads, unclear: self.unclear || other.unclear }
    }
}

fn deeds(script: &str) -> Deeds {
    let mut reader = Reader { rest: script, deeds: Deeds::default(), in_label_line: false };
    if reader.commands().is_none() {
        reader.deeds.unclear = true;
    }
    reader.deeds
}

struct Reader<'a> {
    rest: &'a str,
    deeds: Deeds,
    /// A label stood in this line: some take all of the line for it.
    in_label_line: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn skip(&mut self, which: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(which);
    }

    /// All commands. None where one is none that is known.
    fn commands(&mut self) -> Option<()> {
        loop {
            let before = self.rest;
            self.skip(|c| c.is_ascii_whitespace() || matches!(c, ';' | '{' | '}'));
            self.in_label_line &= !before[..before.len() - self.rest.len()].contains('\n');
            if self.rest.is_empty() {
                return Some(());
            }
            self.address()?;
            self.skip(|c| matches!(c, ' ' | '\t' | '!'));
            match self.next()? {
                '{' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {}
                'q' | 'Q' | 'l' | 'L' => self.skip(|c| c == ' ' || c.is_ascii_digit()),
                '#' => self.line(),
                'a' | 'i' | 'c' => {
                    let text = self.rest.lines().next().unwrap_or_default();
                    // The text goes on in the next line, which is no command.
                    if text.ends_with('\\') {
                        return None;
                    }
                    self.line();
                }
                'b' | 't' | 'T' | ':' => self.label()?,
                'r' | 'R' => {
                    let name = self.rest.lines().next().unwrap_or_default().trim();
                    self.deeds.reads |= name.contains("..") || name.starts_with(['/', '~']) || paths::is_secret(name);
                    self.line();
                }
                'y' => {
                    let mark = self.next()?;
                    self.until(mark, false)?;
                    self.until(mark, false)?;
                }
                's' => self.substitution()?,
                'e' | 'w' | 'W' => {
                    self.deeds.runs = true;
                    self.line();
                }
                _ => return None,
            }
        }
    }

    /// A label ends at white space, at `;` or at the line's end, which depends on the sed. So what stands behind it is
    /// read as commands, as long as these end with the line, too.
    fn label(&mut self) -> Option<()> {
        self.skip(|c| matches!(c, ' ' | '\t'));
        self.skip(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        self.in_label_line = true;
        // Some take a bracket for a letter of the label; behind the next blank all read the same again.
        let behind = self.rest.trim_start_matches('}');
        behind.chars().next().is_none_or(|c| c.is_ascii_whitespace() || c == ';').then_some(())
    }

    fn line(&mut self) {
        self.skip(|c| c != '\n');
    }

    /// `1`, `$`, `/x/I`, `\,x,`, `1~2`, and two of them with a comma between.
    fn address(&mut self) -> Option<()> {
        loop {
            let first = self.rest.chars().next()?;
            match first {
                '0'..='9' | '$' | '+' | '~' => self.skip(|c| c.is_ascii_digit() || matches!(c, '$' | '~' | '+')),
                '/' | '\\' => {
                    self.next();
                    let mark = if first == '/' { '/' } else { self.next()? };
                    self.until(mark, true)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                _ => return Some(()),
            }
            self.skip(|c| matches!(c, ' ' | '\t'));
            if !self.rest.starts_with(',') {
                return Some(());
            }
            self.skip(|c| matches!(c, ',' | ' ' | '\t'));
        }
    }

    /// Behind the next mark that no backslash hides. None where brackets hold one: whether it counts there depends on
    /// which sed it is.
    fn until(&mut self, mark: char, is_pattern: bool) -> Option<()> {
        let mut bracket = false;
        loop {
            match self.next()? {
                '\n' if self.in_label_line => return None,
                '\\' => {
                    let next = self.next()?;
                    if next == '\n' && self.in_label_line {
                        return None;
                    }
                }
                c if c == mark && bracket && is_pattern => return None,
                c if c == mark => return Some(()),
                '[' => bracket = true,
                ']' => bracket = false,
                _ => {}
            }
        }
    }

    fn substitution(&mut self) -> Option<()> {
        let mark = self.next()?;
        self.until(mark, true)?;
        self.until(mark, false)?;
        let flags = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let (flags, rest) = self.rest.split_at(flags);
        self.deeds.runs |= flags.contains(['e', 'w']);
        self.rest = rest;
        flags.chars().all(|c| c.is_ascii_digit() || "gpiImMew".contains(c)).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_does_is_read_from_its_commands() {
        let check = |script: &str, runs: bool, reads: bool, unclear: bool| {
            assert_eq!(deeds(script), Deeds { runs, reads, unclear }, "{script}");
        };
        for plain in [
            "1,20p",
            "$d",
            "s/a/b/g",
            "s|/usr|/opt|",
            "s/a\\/e/b/",
            "/we/d",
            "/a/,/b/{s/x/y/;p}",
            "2~3!d",
            "y/abc/xyz/",
            ":a;N;$!ba;s/\\n/ /g",
            "/x/a hello; w y",
            "s/w/e/2pI",
            "1r part.txt",
            "s/[a-z]/x/",
            "# w x",
            "",
        ] {
            check(plain, false, false, false);
        }
        for runs in [
            "e id",
            "1e id",
            "w x",
            "s/a/b/e",
            "s/a/b/gw x",
            "\\,a,e id",
            "/a/,+3e id",
            "s,a\\,b,c,e",
            "{p;e id\n}",
            ":a e id",
            ": a e id",
            "b a e id",
            "ta\te id",
            "T a\ne id",
            ":a} e id",
            "s;a;b;e",
        ] {
            check(runs, true, false, false);
        }
        check("r ../x", false, true, false);
        check("$r/etc/hosts", false, true, false);
        check("1r.env", false, true, false);
        for unclear in [
            "s/[/]x/e/p",
            "s/a/b",
            "v",
            "/a",
            "s/a/b/k",
            ":a}#;e id",
            ":a}e id",
            "b#;e id",
            "a\\\ns;x;\ne id\ns;p;b;",
            ":a;s/x/\\\ne id/",
        ] {
            assert!(deeds(unclear).unclear, "{unclear}");
        }
    }
}
