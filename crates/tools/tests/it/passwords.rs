//! Documents with a password: the user is asked, and the answer remains confidential.

use std::{collections::VecDeque, io::Read as _, sync::Mutex};

use agentd_core::{
    error::KnowledgeError,
    interrupt::{Answer, Ask},
    knowledge::{
        DocumentExport, DocumentFinds, DocumentQuery, DocumentState, KnowledgeStats, OpenDocument, PartKind, PartRange,
        ReadPart, Reading,
    },
    ports::{Knowledge, OnProgress, Person},
};
use futures_util::future::BoxFuture;

use super::*;

/// Reader for documents whose content is their own password.
#[derive(Debug)]
pub(super) struct Locked;

fn opens(document: &mut OpenDocument) -> bool {
    let mut content = String::new();
    std::io::Seek::rewind(&mut document.file).unwrap();
    document.file.read_to_string(&mut content).unwrap();
    document.password.as_ref().is_some_and(|password| password.reveal() == content)
}

fn encrypted() -> KnowledgeError {
    KnowledgeError::new(ErrorKind::Rejected, "it is encrypted").with_hint("ask the user").with_password_needed(true)
}

impl Knowledge for Locked {
    fn is_document(&self, name: &str, _: &[u8]) -> bool {
        name.ends_with(".pdf") || name.ends_with(".zip")
    }

    fn read(
        &self,
        mut document: OpenDocument,
        range: PartRange,
        _: OnProgress,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<Reading, KnowledgeError>> {
        let inner = document.inner.clone().unwrap_or_default();
        let text = format!("opened {inner} from row {}", range.from.row);
        let label = "page 1".to_owned();
        let part = ReadPart { number: range.first, label, text, cut: false, shown: None, next: None };
        let reading = Reading {
            format: "PDF".to_owned(),
            title: None,
            parts_are: PartKind::Page,
            total: 1,
            parts: vec![part],
            broken: None,
            locked: false,
        };
        let is_open = opens(&mut document) || !inner.is_empty();
        std::future::ready(if is_open { Ok(reading) } else { Err(encrypted()) }).boxed()
    }

    fn export(
        &self,
        mut document: OpenDocument,
        sheet: u32,
        _: OnProgress,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentExport, KnowledgeError>> {
        let (content, text) = (format!("sheet {sheet}"), "a,b\n1,2\n".to_owned());
        let export = DocumentExport { content, text, rows: 2, columns: 2, broken: None };
        let is_open = document.inner.is_some() || opens(&mut document);
        std::future::ready(if is_open { Ok(export) } else { Err(encrypted()) }).boxed()
    }

    fn search(
        &self,
        documents: Vec<OpenDocument>,
        _: DocumentQuery,
        _: OnProgress,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<DocumentFinds, KnowledgeError>> {
        let mut finds = DocumentFinds::default();
        for mut document in documents {
            if opens(&mut document) {
                finds.searched += 1;
            } else {
                finds.broken.push((document.name.clone(), "it is encrypted".to_owned()));
                finds.locked.push(document.name);
            }
        }
        std::future::ready(Ok(finds)).boxed()
    }

    fn ingest(
        &self,
        _: Vec<OpenDocument>,
        _: bool,
        _: OnProgress,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn states(&self, _: Vec<OpenDocument>) -> BoxFuture<'_, Result<Vec<DocumentState>, KnowledgeError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn stats(&self) -> BoxFuture<'_, Result<KnowledgeStats, KnowledgeError>> {
        std::future::ready(Err(encrypted())).boxed()
    }
}

type Asked = Arc<Mutex<Vec<Ask>>>;

/// Creates a bench with a user who gives these answers. Returns the bench and the recorded questions.
async fn bench(answers: &[Option<&str>]) -> (Bench, Asked) {
    let mut bench = Bench::with(Project::None, |config| config.knowledge = Some(Arc::new(Locked))).await;
    let asked = Asked::default();
    let answers: Arc<Mutex<VecDeque<Option<String>>>> =
        Arc::new(Mutex::new(answers.iter().map(|answer| answer.map(str::to_owned)).collect()));
    let notes = Arc::clone(&asked);
    bench.context.person = Person::new(move |ask| {
        notes.lock().unwrap().push(ask);
        let answer = answers.lock().unwrap().pop_front();
        let answer = answer.map(|answer| match answer {
            Some(text) => Answer::Text { text },
            None => Answer::Reject { reason: None },
        });
        std::future::ready(answer).boxed()
    });
    bench.put("uploads/a.pdf", "sesame");
    bench.put("uploads/b.pdf", "sesame");
    (bench, asked)
}

#[tokio::test]
async fn password_is_asked_secretly_once_per_session() {
    let (bench, asked) = bench(&[Some("wrong"), Some("sesame")]).await;
    let output = bench.ok("read_file", json!({"path": "uploads/a.pdf", "row": 7})).await;
    assert!(output.contains("opened  from row 7") && !output.contains("sesame"), "{output}");
    {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(Ask::is_secret) && asked[0] != asked[1], "{asked:?}");
        let Ask::Question { question, context: Some(context), .. } = &asked[1] else { panic!() };
        assert!(question.contains("uploads/a.pdf") && context.contains("Wrong password (attempt 2 of 3)"), "{context}");
    }
    // Other documents with the same password require no question, in this tool and in other tools.
    bench.ok("read_file", json!({"path": "uploads/b.pdf"})).await;
    bench.ok("search_file", json!({"path": "uploads/a.pdf", "query": "x"})).await;
    assert_eq!(asked.lock().unwrap().len(), 2);
    // The password is dropped when the session ends.
    bench.toolbox.end_session(bench.context.session_id).await;
    let output = bench.fails("read_file", json!({"path": "uploads/a.pdf"}), ToolErrorCode::Tool).await;
    assert!(output.contains("it is encrypted; ask the user"), "{output}");
}

#[tokio::test]
async fn locked_document_is_saved_with_its_password() {
    let (bench, asked) = bench(&[Some("sesame")]).await;
    bench.ok("read_file", json!({"path": "uploads/a.pdf", "save_to": "temp/a.csv"})).await;
    assert_eq!((asked.lock().unwrap().len(), bench.content("temp/a.csv")), (1, b"a,b\n1,2\n".to_vec()));
}

#[tokio::test]
async fn three_wrong_passwords_or_a_rejection_end_the_call() {
    let (bench, asked) = bench(&[Some("1"), Some("2"), Some("3"), None]).await;
    let output = bench.fails("search_file", json!({"path": "uploads/a.pdf", "query": "x"}), ToolErrorCode::Tool).await;
    assert!(output.contains("all 3 from the user were wrong"), "{output}");
    assert_eq!(asked.lock().unwrap().len(), 3);
    let output = bench.fails("read_file", json!({"path": "uploads/a.pdf"}), ToolErrorCode::Tool).await;
    assert!(output.contains("gave no password"), "{output}");
}

#[tokio::test]
async fn path_inside_an_archive_selects_its_entry() {
    let (bench, _) = bench(&[]).await;
    bench.put("uploads/all.zip", "archive");
    for path in ["uploads/all.zip!/x/y.pdf", "uploads/all.zip!x/y.pdf"] {
        let output = bench.ok("read_file", json!({ "path": path })).await;
        assert!(output.contains("uploads/all.zip!/x/y.pdf: PDF") && output.contains("opened x/y.pdf"), "{output}");
    }
    // A link to an archive is resolved, so that the rules apply to its target.
    std::os::unix::fs::symlink("all.zip", bench.real("uploads/link.zip")).unwrap();
    let followed = bench.follow("read_file", json!({"path": "uploads/link.zip!/y.pdf"})).await.unwrap();
    assert_eq!(followed.leads_to, "uploads/all.zip!/y.pdf");
    // An existing file with such a name takes precedence.
    bench.put("uploads/odd.zip!/real.txt", "plain text");
    assert!(bench.ok("read_file", json!({"path": "uploads/odd.zip!/real.txt"})).await.contains("plain text"));
    let output = bench.fails("read_file", json!({"path": "uploads/none.zip!/y.pdf"}), ToolErrorCode::Path).await;
    assert!(output.contains("none.zip"), "{output}");
}
