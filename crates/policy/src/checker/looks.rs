//! The list of programs that only look, each with the options that only look. What is not on it asks.
//!
//! Long options end in `=` where they take a value, joined or in the next word, and in `?` where they may have a joined one.
//! A `#` among the letters stands for a number, as in `head -5`.

use super::tables::holds;

/// Arguments with which a program only looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    /// Letters of options without a value.
    pub(super) flags: &'static str,
    /// Letters of options with one.
    pub(super) valued: &'static str,
    /// Long options.
    pub(super) longs: &'static str,
    /// Maximum number of other words.
    pub(super) operands: usize,
}

const ANY: usize = usize::MAX;

const fn looks(flags: &'static str, valued: &'static str, longs: &'static str) -> Looks {
    Looks { flags, valued, longs, operands: ANY }
}

const fn tells(flags: &'static str, longs: &'static str) -> Looks {
    Looks { flags, valued: "", longs, operands: 0 }
}

const SUMS: &str = "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum";

/// Arguments that a program may be given, if it is on the list.
pub(super) fn of(program: &str) -> Option<Looks> {
    Some(match program {
        "true" | "false" | ":" => looks("", "", ""),
        "pwd" => tells("LP", ""),
        "whoami" | "groups" | "logname" | "arch" | "hostname" => tells("", ""),
        "id" => tells("ugGnrz", "user group groups name real zero"),
        "uname" => tells("asnrvmpio", "all kernel-name nodename kernel-release machine operating-system"),
        "nproc" => tells("", "all"),
        "uptime" => tells("ps", "pretty since"),
        "tty" => tells("s", ""),
        "which" => looks("a", "", ""),
        "type" => looks("aftpP", "", ""),
        "ls" => looks(
            "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
            "ITw",
            "all almost-all color? colour? human-readable reverse recursive sort= time= time-style= size inode \
             group-directories-first classify? si full-time no-group numeric-uid-gid directory file-type format= hide= \
             ignore= width= indicator-style= quoting-style= dereference escape literal",
        ),
        "cat" => looks(
            "AbeEnstTuv",
            "",
            "show-all number number-nonblank show-ends show-tabs show-nonprinting squeeze-blank",
        ),
        "head" | "tail" => looks("qvz#", "nc", "lines= bytes= quiet silent verbose zero-terminated"),
        "wc" => looks("clmLw", "", "bytes chars lines words max-line-length"),
        "grep" | "egrep" | "fgrep" => looks(
            "EFGPivwxcLlqsHhbnrToazUyI#",
            "eABCmfd",
            "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp \
             line-regexp count files-without-match files-with-matches quiet silent no-messages with-filename no-filename \
             byte-offset line-number recursive only-matching text null null-data regexp= after-context= before-context= \
             context= max-count= color? colour? include= exclude= exclude-dir= binary-files= label= initial-tab",
        ),
        "rg" => looks(
            "isSFwxvclnNHIqopUPauh0",
            "egtTABCmMjdrE",
            "files hidden no-ignore no-ignore-vcs no-config count count-matches line-number no-line-number heading \
             no-heading color= glob= iglob= type= type-not= type-list max-count= max-depth= max-filesize= max-columns= \
             context= after-context= before-context= ignore-case smart-case case-sensitive fixed-strings word-regexp \
             line-regexp invert-match files-with-matches files-without-match only-matching multiline multiline-dotall \
             pcre2 text trim vimgrep json sort= sortr= null replace= stats no-messages quiet with-filename no-filename \
             column byte-offset regexp= passthru unrestricted",
        ),
        "stat" => looks("Lft", "c", "format= printf= terse dereference file-system"),
        "file" => {
            looks("bhikLNnr0", "", "brief mime mime-type mime-encoding keep-going dereference no-dereference extension")
        }
        "du" => looks(
            "abchHklmsSx0",
            "dt",
            "all apparent-size bytes total human-readable max-depth= summarize one-file-system exclude= threshold= si \
             separate-dirs",
        ),
        "df" => looks("ahHiklPT", "", "all human-readable inodes local portability print-type total si"),
        "basename" => looks("az", "s", "multiple suffix= zero"),
        "dirname" => looks("z", "", "zero"),
        "realpath" => {
            looks("emLPsqz", "", "relative-to= relative-base= canonicalize-existing canonicalize-missing no-symlinks")
        }
        "readlink" => looks("femnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
        "cut" => {
            looks("nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter=")
        }
        "tr" => looks("cCdst", "", "complement delete squeeze-repeats truncate-set1"),
        "nl" => looks("p", "bdfhilnsvw", ""),
        "tac" => looks("br", "s", ""),
        "rev" => looks("", "", ""),
        "fold" => looks("bs#", "w", "width= spaces bytes"),
        "expand" => looks("i", "t", "tabs= initial"),
        "unexpand" => looks("a", "t", "tabs= all first-only"),
        "paste" => looks("sz", "d", "serial delimiters="),
        "join" => looks("iz", "12aejotv", "ignore-case header check-order nocheck-order"),
        "comm" => looks("123z", "", "check-order nocheck-order total output-delimiter="),
        "cmp" => looks("bls", "in", "print-bytes verbose silent quiet bytes= ignore-initial="),
        "diff" => looks(
            "abBcdEeHinNpqrstTuwyZ#",
            "UCWxIF",
            "brief unified? context? side-by-side recursive ignore-all-space ignore-space-change ignore-blank-lines \
             ignore-case new-file text color? report-identical-files minimal suppress-common-lines width= exclude= label=",
        ),
        "sort" => looks(
            "bdfghiMnRrVcCmsuz",
            "kt",
            "reverse numeric-sort unique ignore-case key= field-separator= human-numeric-sort version-sort \
             general-numeric-sort stable check? zero-terminated month-sort random-sort dictionary-order \
             ignore-leading-blanks ignore-nonprinting",
        ),
        // The second file is written.
        "uniq" => Looks {
            operands: 1,
            ..looks(
                "cdDiuz",
                "fsw",
                "count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated",
            )
        },
        "od" => looks("abcdfhilosxv", "AjNt", "address-radix= skip-bytes= read-bytes= format= output-duplicates"),
        "column" => looks("tex", "scoN", "table separator= output-separator="),
        "base64" => looks("di", "w", "decode ignore-garbage wrap="),
        "seq" => looks("w#", "fs", "format= separator= equal-width"),
        "tree" => looks(
            "adfilpsugDhtrnqvFcxNQSUXJ",
            "LPI",
            "noreport dirsfirst filesfirst gitignore prune filelimit= du si inodes device sort= matchdirs ignore-case",
        ),
        _ if holds(SUMS, program) => looks("bt", "", "binary text tag zero"),
        _ => return None,
    })
}

/// Tests and actions of find. Those that run, write or delete are not among them.
pub(super) const FIND: &str = "-H -P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type \
    -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -newerct -perm -user -group -uid \
    -gid -nouser -nogroup -empty -executable -readable -writable -maxdepth -mindepth -depth -mount -xdev -prune -print \
    -print0 -printf -ls -not -a -and -o -or -true -false -quit -links -inum -samefile -daystart -lname -ilname";

/// Operators of `test` and `[`. Those that look into variables are not among them.
pub(super) const TEST: &str =
    "-e -f -d -s -r -w -x -L -h -n -z -nt -ot -ef -b -c -p -S -O -G -u -g -k -eq -ne -lt -le -gt -ge -a -o";

const GIT_DIFF: &str = "stat? name-only name-status numstat shortstat summary cached staged patch no-patch raw minimal \
    patience histogram diff-algorithm? unified? word-diff? color? no-color color-words? no-renames find-renames? \
    find-copies? check full-index abbrev? binary text ignore-all-space ignore-space-change ignore-blank-lines \
    ignore-space-at-eol ignore-cr-at-eol function-context exit-code quiet diff-filter? pickaxe-regex compact-summary \
    no-prefix inter-hunk-context? no-ext-diff no-textconv merge-base";
const GIT_LOG: &str = "oneline graph all decorate? no-decorate abbrev-commit no-abbrev-commit follow max-count= skip= \
    since= after= until= before= author= committer= grep= invert-grep all-match regexp-ignore-case extended-regexp \
    fixed-strings perl-regexp merges no-merges first-parent reverse date= pretty? format? branches? tags? remotes? \
    topo-order date-order author-date-order left-right cherry-pick cherry-mark no-walk full-history \
    simplify-by-decoration ancestry-path boundary source parents children relative-date walk-reflogs no-notes cc";

/// Arguments that a subcommand of git may be given, with two lists of long options.
pub(super) fn of_git(name: &str) -> Option<(Looks, &'static str)> {
    Some(match name {
        "status" => (
            looks("sbvuno", "", "short branch porcelain? long verbose untracked-files? ignored? show-stash no-renames"),
            "",
        ),
        "diff" => (looks("puszwbaRMCBW", "USG", GIT_DIFF), ""),
        "log" | "show" | "whatchanged" => (looks("puszwbaRMCBWgiEFPc#", "USGnL", GIT_LOG), GIT_DIFF),
        "blame" => (looks("lwstefnMCp#", "L", "line-porcelain porcelain show-email show-name show-number date="), ""),
        "shortlog" => (looks("sne", "", "summary numbered email since= until= author= no-merges all"), ""),
        "rev-parse" => (
            looks(
                "q",
                "",
                "abbrev-ref? short? show-toplevel verify git-dir is-inside-work-tree show-prefix symbolic-full-name quiet \
                 show-cdup is-bare-repository absolute-git-dir git-common-dir",
            ),
            "",
        ),
        "rev-list" => (
            looks(
                "#",
                "n",
                "count all max-count= since= until= left-right first-parent no-merges merges reverse author= \
                 abbrev-commit parents",
            ),
            "",
        ),
        "ls-files" => (
            looks(
                "cdmostkuvzi",
                "x",
                "cached deleted modified others stage exclude-standard full-name error-unmatch exclude= directory \
                 unmerged",
            ),
            "",
        ),
        "ls-tree" => (looks("drtlz", "", "name-only name-status long full-tree full-name abbrev?"), ""),
        "merge-base" => (looks("a", "", "all is-ancestor fork-point octopus"), ""),
        "name-rev" => (looks("", "", "name-only tags always"), ""),
        "show-ref" => (looks("dqs", "", "heads tags verify head quiet"), ""),
        "for-each-ref" => (looks("", "", "count= sort= format? merged? no-merged? contains? points-at="), ""),
        // `--dirty` and `--broken` write the index to find out.
        "describe" => (
            looks("", "", "tags all long always abbrev? match= exact-match contains first-parent exclude= candidates="),
            "",
        ),
        "cat-file" => (looks("tspe", "", ""), ""),
        "count-objects" => (tells("vH", "verbose human-readable"), ""),
        "cherry" => (looks("v", "", ""), ""),
        "grep" => (
            looks(
                "niwvEFGPclLhHaIqWp#",
                "eABCm",
                "line-number ignore-case word-regexp invert-match files-with-matches files-without-match count cached \
                 untracked color? heading break show-function function-context and or not all-match max-depth= context= \
                 after-context= before-context= name-only extended-regexp fixed-strings perl-regexp only-matching column \
                 full-name",
            ),
            "",
        ),
        "branch" => (tells("arv", "list all remotes show-current no-color verbose"), ""),
        _ => return None,
    })
}
