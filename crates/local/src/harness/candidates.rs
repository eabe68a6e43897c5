//! The tools that the built-in model can be trusted with, and what people say who want them.
//!
//! Each candidate is a text that ends where a request would stand. The one after which the request is likeliest wins.
//! Descriptions and examples were chosen by measuring; try `examples/ask.rs` before changing one. Only tools that
//! look are here: a guess of one time in ten must not change a file or run a command.

/// Possible reaction to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Answer in words.
    Chat,
    /// Call this tool.
    Tool(Tool),
}

/// A tool that the harness knows how to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    ReadFile,
    ListFiles,
    Now,
    FindFiles,
    Grep,
    SearchFile,
}

impl Tool {
    pub(crate) const ALL: [Self; 6] =
        [Self::ReadFile, Self::ListFiles, Self::Now, Self::FindFiles, Self::Grep, Self::SearchFile];

    /// The name in the toolbox.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::ListFiles => "list_workspace_files",
            Self::Now => "now",
            Self::FindFiles => "find_files",
            Self::Grep => "grep",
            Self::SearchFile => "search_file",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

/// One way to read a request.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) choice: Choice,
    description: &'static str,
    examples: &'static [&'static str],
}

impl Candidate {
    /// The text after which the request is scored.
    pub(crate) fn prefix(&self) -> String {
        let mut text = format!("The user asks the assistant to {}.\n", self.description);
        for example in self.examples {
            text.push_str("User: ");
            text.push_str(example);
            text.push('\n');
        }
        text.push_str("User:");
        text
    }
}

/// All candidates. Chat has two, because a greeting and a question of knowledge have little in common.
pub(crate) const CANDIDATES: &[Candidate] = &[
    Candidate {
        choice: Choice::Tool(Tool::ReadFile),
        description: "open a file in the workspace, to read, show or summarize it",
        examples: &[
            "Read report.md",
            "Summarize docs/plan.txt",
            "What does uploads/readme.md say?",
            "show me config.yaml",
            "cat lib.rs",
        ],
    },
    Candidate {
        choice: Choice::Tool(Tool::ListFiles),
        description: "list the files and folders in the workspace",
        examples: &[
            "List my files",
            "What files do I have?",
            "list the files in docs",
            "What is in this folder?",
            "ls",
        ],
    },
    Candidate {
        choice: Choice::Tool(Tool::Now),
        description: "tell the current time or date",
        examples: &["What time is it?", "What day is today?", "Can you tell me the time?", "tell me the date"],
    },
    Candidate {
        choice: Choice::Tool(Tool::FindFiles),
        description: "find files by their name",
        examples: &[
            "Find all Python files",
            "Where is main.rs?",
            "find the file named plan.txt",
            "is there a file called data.csv?",
        ],
    },
    Candidate {
        choice: Choice::Tool(Tool::Grep),
        description: "search for words inside of the files",
        examples: &[
            "Search for TODO in my files",
            "Which file mentions the budget?",
            "grep password",
            "find \"hello\" in the code",
        ],
    },
    Candidate {
        choice: Choice::Chat,
        description: "just chat, with no question about files or time",
        examples: &[
            "Hello!",
            "hi",
            "Thank you!",
            "ok",
            "How are you?",
            "Who are you?",
            "What can you do?",
            "My name is Anna.",
            "bye",
        ],
    },
    Candidate {
        choice: Choice::Chat,
        description: "answer a general question, explain or write something",
        examples: &[
            "What is the capital of Italy?",
            "Write a poem about the sea",
            "Who invented the telephone?",
            "What is an operating system?",
            "How many hours are in a day?",
            "Explain gravity",
        ],
    },
];
