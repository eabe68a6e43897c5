//! The orders that are known, the words that make them, and those around them.

use super::Limit;

/// The rest of an order that makes it one for a limit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Object {
    /// Whatever it is.
    Any,
    /// One of these words, or the path of a file.
    With(&'static str),
    /// One of these words.
    Word(&'static str),
    /// The path of a file with code in it, or something of "the code".
    Code,
    /// None of these words, and no number.
    Without(&'static str),
}

/// Verbs of an order, and what of it cannot be done.
pub(super) struct Order {
    pub(super) verbs: &'static str,
    pub(super) object: Object,
    pub(super) limit: Limit,
}

const fn order(verbs: &'static str, object: Object, limit: Limit) -> Order {
    Order { verbs, object, limit }
}

/// Words for what is in a project.
pub(super) const THINGS: &str = "api app application branch bug bugs class code codebase comment comments config configuration \
    dependencies dependency docs docstring docstrings documentation error errors feature file files folder folders \
    function functions import imports line lines method module package parameter program project readme repo repository \
    script server test tests todo todos typo typos variable version website";
const FILES: &str = "changelog directory docs documentation document dockerfile file files folder folders makefile readme \
    repo repository";
const PROGRAMS: &str = "api app application bot cli code component module parser program script test tests unittests \
    webpage website";
const RUNNABLE: &str = "app application backend binary build code container daemon database docker frontend function image \
    it process program project release script server service shell terminal test tests this website";
const GIT: &str = "branch branches changes code commit commits it main master origin pr remote request tag";
/// Texts that are made of words alone: the model may have a try, unless they are to be in a file.
pub(super) const TEXTS: &str = "agenda dialogue email equation essay expression grammar haiku joke letter limerick list lyrics message \
    outline overview paragraph plan poem question questions quiz recap recipe sentence sentences song speech spelling story \
    summary table text";

/// All orders that are known; the first that fits counts.
pub(super) const ORDERS: &[Order] = &[
    order("fix repair edit modify refactor reformat patch debug", Object::Any, Limit::Edit),
    order("implement", Object::Any, Limit::Code),
    order("change adjust", Object::Without("mind of plans subject tone topic yourself"), Limit::Edit),
    order("update", Object::Without("me us"), Limit::Edit),
    order("add insert append replace", Object::With(THINGS), Limit::Edit),
    order("add", Object::Without("# up joke more numbers one two three four five"), Limit::Edit),
    order(
        "rewrite correct improve optimise optimize simplify format clean document",
        Object::With(THINGS),
        Limit::Edit,
    ),
    order("optimise optimize clean insert append replace", Object::Word("it this them"), Limit::Edit),
    order("comment", Object::Word("code function functions file"), Limit::Edit),
    order("convert migrate port apply bump", Object::With(THINGS), Limit::Edit),
    order("make", Object::Word("compile configurable executable faster pass"), Limit::Edit),
    order("delete remove erase rename undo revert overwrite", Object::Any, Limit::Files),
    order("move copy save store duplicate", Object::With(THINGS), Limit::Files),
    order("save store", Object::Word("it this that them"), Limit::Files),
    order("create make write generate build code develop program", Object::Word(PROGRAMS), Limit::Code),
    order("create make write generate produce", Object::With(FILES), Limit::Files),
    order("create make", Object::Word(GIT), Limit::Run),
    order("run", Object::Without("away through"), Limit::Run),
    order("compile", Object::Without("list"), Limit::Run),
    order("execute install uninstall deploy benchmark lint commit rebase restart", Object::Any, Limit::Run),
    order("build launch start stop kill test", Object::With(RUNNABLE), Limit::Run),
    order("check", Object::Word("test tests compiles builds"), Limit::Run),
    order("push pull merge checkout stash", Object::Word(GIT), Limit::Run),
    order("clone upgrade", Object::Any, Limit::Run),
    order("set", Object::Word("alarm reminder timer"), Limit::Act),
    order("remind", Object::Word("to tomorrow later at"), Limit::Act),
    order("send", Object::Any, Limit::Act),
    order("email", Object::Word("to it this him her them"), Limit::Act),
    order("google", Object::Without("is was were has are does did"), Limit::Network),
    order("browse download", Object::Any, Limit::Network),
    order("search look find check", Object::Word("web internet online google"), Limit::Network),
    order("translate", Object::Any, Limit::Translate),
    order("draw paint sketch", Object::Any, Limit::Picture),
    order("create make generate describe", Object::Word("diagram drawing image logo photo picture"), Limit::Picture),
    order("find locate search", Object::Word("bug bugs"), Limit::Judge),
    order(
        "review analyse analyze audit explain understand evaluate inspect check compare summarise summarize",
        Object::Code,
        Limit::Judge,
    ),
    order("compare", Object::With("files"), Limit::Judge),
];

/// Words before an order that leave it one.
pub(super) const OPENINGS: &[&str] = &[
    "please",
    "pls",
    "kindly",
    "now",
    "then",
    "and",
    "so",
    "ok",
    "okay",
    "hey",
    "hi",
    "hello",
    "just",
    "also",
    "first",
    "next",
    "go ahead and",
    "go and",
    "can you",
    "could you",
    "would you",
    "will you",
    "are you able to",
    "i want you to",
    "i need you to",
    "i'd like you to",
    "i would like you to",
    "let us",
    "let",
    "lets",
    "help me to",
    "help me",
    "try to",
    "try and",
    "you should",
    "you must",
    "we should",
    "we need to",
];

/// Words before what the person wants to do, with help.
pub(super) const WISHES: &[&[&str]] = &[
    &["i", "want", "to"],
    &["i", "need", "to"],
    &["i'd", "like", "to"],
    &["i", "would", "like", "to"],
    &["i", "have", "to"],
];

/// Verbs of what it can do, after which another order may follow: "Read a.py and fix it".
pub(super) const LOOKING: &str = "read open show view print cat list check take go summarise summarize explain";

/// Commands that people type as they would in a shell, and what follows them at least; nothing where that may be
/// anything.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "git npm npx yarn pnpm pip pip3 cargo docker brew apt apt-get uv",
        "add apply blame branch build check checkout clippy clone commit diff fetch fmt i init install list log merge ps \
         pull push rebase reset run show start stash status sync tag test update upgrade",
    ),
    ("go", "build fmt mod run test vet"),
    ("make", "all build check clean install lint test tests"),
    ("sudo cd rm mv cp mkdir chmod curl wget ssh pytest", ""),
    ("python python3 node bash sh ruby", "-c -m"),
];
