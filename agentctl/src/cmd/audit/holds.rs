//! Whether the audit log holds, for people and for programs.

use agentd_core::audit::{AuditProblem, AuditReport};
use serde_json::{Value, json};

use crate::{
    report,
    terminal::{
        paint::{BAD, GOOD, STRONG, paint},
        sanitize::clean_line,
    },
};

/// The report for programs.
pub(super) fn verified(report: &AuditReport) -> Value {
    json!({
        "holds": report.holds(),
        "lines": report.lines,
        "files": report.files,
        "head": report.head,
        "findings": report.findings,
        "more": report.more,
    })
}

/// The report for people: what is wrong, a line each, and what that comes to.
pub(super) fn lines(report: &AuditReport, color: bool) -> Vec<String> {
    let mut lines: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            let style = if finding.problem == AuditProblem::Recorded { STRONG } else { BAD };
            let place = if finding.line > 0 { format!(":{}", finding.line) } else { String::new() };
            let place = format!("{}{place}", clean_line(&finding.file));
            let problem = paint(color, style, finding.problem.as_str());
            format!("{place}: {problem}: {}", clean_line(&finding.message))
        })
        .collect();
    if report.more > 0 {
        lines.push(format!("and {} more", report.more));
    }
    let read =
        format!("{} in {}", report::count(report.lines, "line"), report::count(report.files.len() as u64, "file"));
    lines.push(if report.holds() {
        format!("{} {read}", paint(color, GOOD, "the log is intact:"))
    } else {
        format!("{} {read}", paint(color, BAD, "the log is not intact:"))
    });
    lines.push(format!("last line {}, hash {}", report.head.n, report.head.hash));
    lines
}

#[cfg(test)]
mod tests {
    use agentd_core::audit::{AuditFinding, AuditHead};

    use super::*;

    #[test]
    fn what_is_wrong_with_the_log_is_told_with_its_place() {
        let finding = |problem, line| AuditFinding {
            file: "audit.jsonl".to_owned(),
            line,
            problem,
            message: "it is not what it was".to_owned(),
        };
        let mut report = AuditReport {
            lines: 9,
            files: vec!["audit.jsonl".to_owned()],
            head: AuditHead { n: 9, hash: "ab".to_owned() },
            findings: vec![finding(AuditProblem::Recorded, 2)],
            more: 0,
        };
        insta::assert_snapshot!(lines(&report, false).join("\n"), @r"
        audit.jsonl:2: recorded: it is not what it was
        the log is intact: 9 lines in 1 file
        last line 9, hash ab
        ");
        report.findings.push(finding(AuditProblem::Changed, 5));
        report.findings.push(finding(AuditProblem::NoWitness, 0));
        insta::assert_snapshot!(lines(&report, false).join("\n"), @r"
        audit.jsonl:2: recorded: it is not what it was
        audit.jsonl:5: changed: it is not what it was
        audit.jsonl: no_witness: it is not what it was
        the log is not intact: 9 lines in 1 file
        last line 9, hash ab
        ");
    }
}
