//! From the tree to the simple commands in it.

use agentd_core::policy::Risk;
use brush_parser::ast;
use brush_parser::ast::{
    AndOr, Assignment, AssignmentName, AssignmentValue, BinaryPredicate, Command, CommandPrefixOrSuffixItem as Item,
    CompoundCommand, CompoundList, ExtendedTestExpr, FunctionDefinition, IoFileRedirectKind, IoFileRedirectTarget,
    IoRedirect, Pipeline, RedirectList, SimpleCommand, SubshellCommand, UnexpandedArithmeticExpr,
};

use super::{
    Assign, Part, Redirect, Stdin,
    parse::{self, MAX_BYTES, Unclear},
    word::Word,
    wrappers::{self, Inner},
};
use crate::policy::opinion::Opinion;

/// How often a command may hold another one: substitutions, `sh -c`, `env` and the like.
const MAX_DEPTH: usize = 8;
/// How many parts a command may have.
const MAX_PARTS: usize = 256;

/// All parts of a command, in the order in which they stand. Never empty where the command is not blank.
pub(in crate::policy) fn take_apart(command: &str) -> Vec<Part> {
    let mut walker = Walker { parts: Vec::new(), depth: 0, bytes_left: 2 * MAX_BYTES };
    walker.script(command, Stdin::Inherited);
    // What is denied may stand in what was left out.
    if let Some(left_out) = walker.parts.get_mut(MAX_PARTS) {
        left_out.unread = Some(command.to_owned());
    }
    walker.parts
}

struct Walker {
    parts: Vec<Part>,
    depth: usize,
    /// How much text may still be parsed, so that a command cannot make work by holding itself again and again.
    bytes_left: usize,
}

impl Walker {
    fn script(&mut self, text: &str, stdin: Stdin) {
        if self.depth >= MAX_DEPTH {
            return self.unread(text, "it holds commands inside commands too deeply");
        }
        let Some(left) = self.bytes_left.checked_sub(text.len()) else {
            return self.unread(text, "it is too long");
        };
        self.bytes_left = left;
        self.depth += 1;
        match parse::script(text) {
            Ok(program) => program.complete_commands.iter().for_each(|list| self.list(list, stdin)),
            Err(why) => self.unread(text, why),
        }
        self.depth -= 1;
    }

    fn unread(&mut self, text: &str, why: Unclear) {
        let finding = Opinion::unknown(format!("the command cannot be taken apart: {why}"));
        self.push(Part { unread: Some(text.to_owned()), findings: vec![finding], ..Part::default() });
    }

    fn push(&mut self, part: Part) {
        if self.parts.len() < MAX_PARTS {
            self.parts.push(part);
        } else if self.parts.len() == MAX_PARTS {
            let finding = Opinion::unknown("the command has more parts than anybody would read");
            self.parts.push(Part { unread: Some("…".to_owned()), findings: vec![finding], ..Part::default() });
        }
    }

    fn list(&mut self, list: &CompoundList, stdin: Stdin) {
        for item in &list.0 {
            self.pipeline(&item.0.first, stdin);
            for next in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline, stdin);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, stdin: Stdin) {
        for (index, command) in pipeline.seq.iter().enumerate() {
            self.command(command, if index == 0 { stdin } else { Stdin::Pipe });
        }
    }

    fn command(&mut self, command: &Command, stdin: Stdin) {
        match command {
            Command::Simple(simple) => self.simple(simple, stdin),
            Command::Compound(compound, redirects) => {
                let stdin = self.around(redirects.as_ref(), stdin);
                self.compound(compound, stdin);
            }
            Command::Function(function) => self.function(function),
            Command::ExtendedTest(test) => {
                let mut part = Part { words: vec![Word::literal("[[")], ..Part::default() };
                self.test(&test.expr, &mut part);
                part.words.push(Word::literal("]]"));
                self.finish(part);
            }
        }
    }

    /// The redirections of a group or loop, as a part of their own. Says where its input comes from.
    fn around(&mut self, redirects: Option<&RedirectList>, stdin: Stdin) -> Stdin {
        let Some(redirects) = redirects else { return stdin };
        let mut part = Part { stdin, ..Part::default() };
        for redirect in &redirects.0 {
            self.redirect(redirect, &mut part);
        }
        let stdin = part.stdin;
        if !part.redirects.iter().all(Redirect::is_harmless) || !part.findings.is_empty() {
            self.finish(part);
        }
        stdin
    }

    fn compound(&mut self, compound: &CompoundCommand, stdin: Stdin) {
        match compound {
            CompoundCommand::Arithmetic(command) => {
                // `((a); b)` is a group in a group for bash, and so is `( (a) )`: whatever the parser took it for, its
                // text is judged as commands too.
                let text = &command.expr.value;
                let finding = Opinion::unknown("brackets in brackets may be arithmetic or commands");
                self.push(Part { unread: Some(format!("(({text}))")), findings: vec![finding], ..Part::default() });
                self.script(text, stdin);
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                let expressions = [&clause.initializer, &clause.condition, &clause.updater];
                expressions.into_iter().flatten().for_each(|expression| self.arithmetic(expression));
                self.list(&clause.body.list, stdin);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list, stdin),
            CompoundCommand::Subshell(SubshellCommand { list, .. }) => self.list(list, stdin),
            CompoundCommand::ForClause(clause) => {
                let values = clause.values.iter().flatten().map(|word| Word::read(&word.value));
                let named = [Word::literal("for"), Word::literal(&clause.variable_name)];
                let mut part = Part { words: named.into_iter().chain(values).collect(), ..Part::default() };
                super::super::checker::environment::check(&clause.variable_name, &mut part.findings);
                self.finish(part);
                self.list(&clause.body.list, stdin);
            }
            CompoundCommand::CaseClause(clause) => {
                let patterns = clause.cases.iter().flat_map(|case| &case.patterns);
                let words = std::iter::once(&clause.value).chain(patterns).map(|word| Word::read(&word.value));
                let part =
                    Part { words: std::iter::once(Word::literal("case")).chain(words).collect(), ..Part::default() };
                self.finish(part);
                clause.cases.iter().filter_map(|case| case.cmd.as_ref()).for_each(|list| self.list(list, stdin));
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, stdin);
                self.list(&clause.then, stdin);
                for other in clause.elses.iter().flatten() {
                    other.condition.iter().for_each(|list| self.list(list, stdin));
                    self.list(&other.body, stdin);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0, stdin);
                self.list(&clause.1.list, stdin);
            }
        }
    }

    fn arithmetic(&mut self, expression: &UnexpandedArithmeticExpr) {
        let text = &expression.value;
        let mut part = Part { words: vec![Word::literal("let"), Word::unknown(text)], ..Part::default() };
        if text.contains(['`', '[']) || text.contains("$(") {
            part.findings.push(Opinion::unknown("arithmetic can run commands"));
        }
        self.finish(part);
    }

    fn function(&mut self, function: &FunctionDefinition) {
        let name = &function.fname.value;
        let mut part = Part { words: vec![Word::literal("function"), Word::read(name)], ..Part::default() };
        part.findings.push(Opinion::unknown(format!(
            "it defines a function {name:?}, so that names may mean something else than they say"
        )));
        self.finish(part);
        let stdin = self.around(function.body.1.as_ref(), Stdin::Inherited);
        self.compound(&function.body.0, stdin);
    }

    fn test(&mut self, expression: &ExtendedTestExpr, part: &mut Part) {
        let mut add = |word: &ast::Word| part.words.push(Word::read(&word.value));
        match expression {
            ExtendedTestExpr::UnaryTest(_, word) => add(word),
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                add(left);
                add(right);
                let counted = part.words.iter().rev().take(2);
                if is_arithmetic(predicate) && !counted.into_iter().all(is_number) {
                    part.findings.push(Opinion::unknown("a comparison of numbers runs what a variable holds"));
                }
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner, part),
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left, part);
                self.test(right, part);
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, stdin: Stdin) {
        let mut part = Part { stdin, ..Part::default() };
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut part, true);
        }
        if let Some(program) = &simple.word_or_name {
            part.words.push(Word::read(&program.value));
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut part, false);
        }
        self.finish(part);
    }

    fn item(&mut self, item: &Item, part: &mut Part, before_program: bool) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, part),
            Item::Word(word) => part.words.push(Word::read(&word.value)),
            Item::AssignmentWord(assignment, _) if before_program => self.assign(assignment, part),
            Item::AssignmentWord(assignment, word) => match &assignment.value {
                AssignmentValue::Scalar(_) => part.words.push(Word::read(&word.value)),
                AssignmentValue::Array(_) => {
                    part.words.push(Word::unknown(&word.value));
                    self.array(assignment, part);
                }
            },
            Item::ProcessSubstitution(_, inner) => {
                part.words.push(Word { substitutes: true, ..Word::unknown("<(…)") });
                self.list(&inner.list, Stdin::Inherited);
            }
        }
    }

    fn assign(&mut self, assignment: &Assignment, part: &mut Part) {
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name.clone(),
            AssignmentName::ArrayElementName(name, index) => {
                part.findings.push(Opinion::unknown(format!("the index of {name}[{index}] can run commands")));
                name.clone()
            }
        };
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => Word::read(&word.value),
            AssignmentValue::Array(_) => {
                self.array(assignment, part);
                Word::unknown("(…)")
            }
        };
        super::super::checker::environment::check(&name, &mut part.findings);
        part.assigns.push(Assign { name, value });
    }

    fn array(&mut self, assignment: &Assignment, part: &mut Part) {
        let AssignmentValue::Array(elements) = &assignment.value else { return };
        for word in elements.iter().flat_map(|(key, value)| key.iter().chain([value])) {
            self.nested(&Word::read(&word.value), part);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, part: &mut Part) {
        match redirect {
            IoRedirect::File(descriptor, kind, target) => {
                let (operator, writes) = match kind {
                    IoFileRedirectKind::Read => ("<", false),
                    IoFileRedirectKind::Write => (">", true),
                    IoFileRedirectKind::Append => (">>", true),
                    IoFileRedirectKind::ReadAndWrite => ("<>", true),
                    IoFileRedirectKind::Clobber => (">|", true),
                    IoFileRedirectKind::DuplicateInput => ("<&", false),
                    IoFileRedirectKind::DuplicateOutput => (">&", true),
                };
                if !writes && matches!(descriptor, None | Some(0)) {
                    part.stdin = Stdin::Given;
                }
                match target {
                    IoFileRedirectTarget::Filename(word) => {
                        let target = Word::read(&word.value);
                        part.redirects.push(Redirect {
                            writes,
                            operator: if operator == ">&" { "&>" } else { operator },
                            target,
                        });
                    }
                    IoFileRedirectTarget::Fd(_) => {}
                    IoFileRedirectTarget::Duplicate(word) => {
                        let target = Word::read(&word.value);
                        // `>& file` writes a file; `>&2` and `>&-` do not.
                        let number = target.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                        if !(target.is_static() && number) {
                            part.redirects.push(Redirect { writes, operator: "&>", target });
                        }
                    }
                    IoFileRedirectTarget::ProcessSubstitution(_, inner) => {
                        part.redirects.push(Redirect {
                            writes: false,
                            operator,
                            target: Word { substitutes: true, ..Word::unknown("<(…)") },
                        });
                        self.list(&inner.list, Stdin::Inherited);
                    }
                }
            }
            IoRedirect::OutputAndError(word, append) => {
                let operator = if *append { "&>>" } else { "&>" };
                part.redirects.push(Redirect { writes: true, operator, target: Word::read(&word.value) });
            }
            IoRedirect::HereString(_, word) => {
                part.stdin = Stdin::Given;
                part.redirects.push(Redirect { writes: false, operator: "<<<", target: Word::read(&word.value) });
            }
            IoRedirect::HereDocument(_, document) => {
                part.stdin = Stdin::Given;
                let text = &document.doc.value;
                let mut target = Word::literal(text.as_str());
                if document.requires_expansion && text.contains(['$', '`']) {
                    target = Word::unknown(text.as_str());
                    if text.contains('`') || text.contains("$(") || text.contains("${") || text.contains("$[") {
                        target.unclear = Some("the text after `<<` runs commands");
                    }
                }
                part.redirects.push(Redirect { writes: false, operator: "<<", target });
            }
        }
    }

    /// Keeps a part, with the parts that are inside its words and behind it.
    fn finish(&mut self, mut part: Part) {
        let assigned: Vec<Word> = part.assigns.iter().map(|assign| assign.value.clone()).collect();
        let targets: Vec<Word> = part.redirects.iter().map(|redirect| redirect.target.clone()).collect();
        let words = part.words.clone();
        for word in words.iter().chain(&assigned).chain(&targets) {
            self.nested(word, &mut part);
        }
        let given =
            part.redirects.iter().filter(|redirect| redirect.operator == "<<<").map(|redirect| &redirect.target);
        for value in assigned.iter().chain(given).filter(|value| value.text.contains("$(") || value.text.contains('`'))
        {
            if value.scripts.is_empty() {
                part.findings.push(Opinion::unknown("a variable is given text that can be run later"));
            }
        }
        if words.is_empty() && part.assigns.is_empty() && part.redirects.is_empty() && part.findings.is_empty() {
            return;
        }
        if self.depth >= MAX_DEPTH {
            part.findings.push(Opinion::unknown("it holds commands inside commands too deeply"));
            return self.push(part);
        }
        let inner = wrappers::inner(&mut part);
        let stdin = part.stdin;
        let given = part
            .redirects
            .iter()
            .rev()
            .find(|redirect| redirect.operator.starts_with("<<"))
            .map(|redirect| redirect.target.clone());
        self.push(part);
        self.depth += 1;
        for inner in inner {
            match inner {
                Inner::Command { words, assigns, open_ended } => {
                    let mut part = Part { words, assigns, stdin, open_ended, ..Part::default() };
                    for assign in part.assigns.clone() {
                        super::super::checker::environment::check(&assign.name, &mut part.findings);
                    }
                    self.finish_inner(part);
                }
                Inner::Script(text) => self.script(&text, stdin),
                Inner::StandardInput => {
                    if let Some(text) = given.as_ref().filter(|word| word.is_static()) {
                        self.script(&text.text, Stdin::Given);
                    }
                }
            }
        }
        self.depth -= 1;
    }

    /// A command behind a wrapper. Its words were looked into with the wrapper's.
    fn finish_inner(&mut self, part: Part) {
        let known = part.words.iter().map(|word| Word { scripts: Vec::new(), ..word.clone() }).collect();
        self.finish(Part { words: known, ..part });
    }

    /// The scripts inside a word.
    fn nested(&mut self, word: &Word, part: &mut Part) {
        if let Some(why) = word.unclear {
            part.findings.push(Opinion {
                dynamic: true,
                ..Opinion::asks(Risk::High, format!("the command cannot be taken apart: {why}"))
            });
        }
        for script in &word.scripts {
            self.script(script, Stdin::Inherited);
        }
    }
}

/// Whether both sides are arithmetic, in which a variable's value is read as arithmetic again.
fn is_arithmetic(predicate: &BinaryPredicate) -> bool {
    matches!(
        predicate,
        BinaryPredicate::ArithmeticEqualTo
            | BinaryPredicate::ArithmeticNotEqualTo
            | BinaryPredicate::ArithmeticLessThan
            | BinaryPredicate::ArithmeticLessThanOrEqualTo
            | BinaryPredicate::ArithmeticGreaterThan
            | BinaryPredicate::ArithmeticGreaterThanOrEqualTo
    )
}

/// Whether a word is a number, or what bash itself counts.
fn is_number(word: &Word) -> bool {
    let text = word.text.trim_start_matches('-');
    word.is_static() && (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) || text.starts_with('$'))
}
