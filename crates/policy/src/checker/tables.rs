//! Names of programs and options, by their possible effects. Lists are space-separated strings, which are easier to
//! read than arrays.

/// Returns true if the list contains the word.
pub(crate) fn holds(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|entry| entry == word)
}

/// Returns true if the word starts with an entry of the list.
pub(super) fn starts_with_any(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|entry| word.starts_with(entry))
}

/// Programs that may destroy the host, its disks or its accounts.
pub(super) const RUINOUS: &str = "shutdown reboot halt poweroff init telinit rtcwake mke2fs wipefs fdisk sfdisk gdisk \
    sgdisk cfdisk parted swapon swapoff insmod rmmod modprobe kexec mount umount losetup cryptsetup lvremove vgremove \
    pvremove dmsetup blkdiscard hdparm debugfs grub-install efibootmgr useradd userdel usermod groupadd passwd chpasswd \
    visudo vipw sudoedit setcap sysctl iptables ip6tables nft ufw pkexec run0 gosu su-exec sg newgrp chroot killall5";

/// Programs that run others in ways that cannot be followed, reach other hosts, or outlive the call. Any of their
/// arguments may be another program.
pub(super) const FAR_REACHING: &str = "unshare nsenter setpriv capsh systemd-run systemctl service at batch crontab \
    anacron killall pkill skill docker docker-compose podman nerdctl buildah kubectl helm lxc lxc-attach ctr virsh \
    vagrant tmux screen nc ncat netcat socat telnet ftp sftp scp mosh lftp rclone sshfs gdb lldb strace ltrace perf \
    expect tclsh wish ed ex vi vim nvim view vimdiff gvim rvim rview evim emacs nano pico osascript xdg-open open gpg \
    ssh-keygen ssh-add ssh-copy-id ssh-agent parallel rlwrap dbus-send dbus-run-session dbus-launch gdbus busctl \
    loginctl machinectl chattr setfacl apt apt-get dpkg rpm dnf yum pacman brew snap flatpak zypper npx bunx uvx pnpx \
    coproc numactl schedtool cpulimit firejail bwrap proot fakeroot fakechroot unbuffer setarch linux32 linux64 x86_64 \
    i386 uname26 prlimit choom chronic ifne pee zrun lckdo entr watchexec nodemon reflex valgrind hyperfine rr \
    heaptrack catchsegv run-parts start-stop-daemon systemd-cat systemd-inhibit systemd-nspawn xvfb-run xterm \
    gnome-terminal konsole x-terminal-emulator startx logrotate fzf nnn ranger mc mutt mail mailx sendmail tcpdump \
    tshark nmap ip ifconfig route arp aws gcloud az gh glab heroku terraform ansible ansible-playbook salt rustup \
    aria2c git-shell cloudflared ngrok crictl snapcraft xdotool agentctl agentd";

/// Builtins that change the meaning of later names, or run text.
pub(super) const RENAMING: &str =
    "alias unalias enable bind complete compgen compopt hash fc history source . shopt mapfile readarray";

/// Programs that send their arguments to other hosts.
pub(super) const SENDING: &str =
    "curl wget ping ping6 dig nslookup host http https httpie xh GET POST HEAD lwp-request traceroute whois fetch";

/// Programs whose words are texts and names, never other programs, so that a denied name among them is harmless.
pub(super) const TEXT_ONLY: &str = "echo printf git cargo make npm yarn pnpm pytest go grep egrep fgrep rg ag for case \
    test [ [[ ls cat head tail wc stat file find which type man whereis touch mkdir cd rm cp mv sort uniq cut tr diff \
    sed jq function let export declare local read tree du basename dirname realpath readlink";

/// Options that name a program or code, for any program. A word that begins with such an option, or contains one after
/// a `=`, runs more than its program.
pub(super) const RUNNING_OPTIONS: &str = "--eval -eval --exec -exec -toolexec --toolexec -vettool --shell-escape \
    -shell-escape --init-hook --pager --lua-filter --to-command --use-compress --rsh --require -engine --node-options \
    --script-shell --process-code --init-file -fplugin -wrapper -specs -agentpath -agentlib -javaagent -J-agent \
    -plugin -load";

/// Substrings that no harmless argument of a compiler or a database contains.
pub(super) const RUNNING_TEXTS: &str =
    r"extld=|-extld |linker=|SO_PATH:|load_extension|writefile(|syscmd(|.shell |.system |\!|system(";

/// Interpreters, with the short options that take code.
pub(super) const INTERPRETERS: [(&str, &str); 11] = [
    ("python pythonw ipython bpython micropython pypy", "c"),
    ("perl", "eEnpiMmIxd"),
    ("ruby", "enpirI"),
    ("node nodejs ts-node tsx", "epr"),
    ("deno jshell", ""),
    ("bun", "ep"),
    ("php", "rRBEdz"),
    ("lua", "el"),
    ("luajit", "elb"),
    ("rscript r groovy scala ghc ghci elixir iex clojure bb racket irb", "e"),
    ("julia", "eEL"),
];

/// Python modules that run code from their arguments, or serve files to other hosts.
pub(super) const RUNNING_MODULES: &str =
    "timeit pdb trace code cProfile profile runpy http.server smtpd idlelib bdb doctest this antigravity";

/// Programs, with the options and first words that make them run, send or delete more than their names imply.
pub(super) const RUNS_TEXT: [(&str, &str); 32] = [
    ("tar gtar bsdtar", "--ch --to-c --use --rsh --inf --new --abs -I -F -P --un"),
    ("zip", "-T -TT --unzip --test"),
    ("rsync", "-e --rsh --rsync-path --remove-source --delete"),
    ("make gmake", "--ev SHELL= MAKEFLAGS= -f- -E - --file=- --makefile=-"),
    ("cmake", "-P -E"),
    ("cargo", "--config publish login yank owner watch -C -Z"),
    (
        "npm",
        "exec x publish unpublish explore adduser login token config c set pkg init create owner access team org \
         hook profile dist-tag deprecate undeprecate -c --script-s --node-options --require --userconfig --globalconfig --prefix --git --node-gyp --python",
    ),
    ("pnpm", "exec dlx publish config create -C --dir"),
    ("yarn", "exec dlx publish config create node npm --cwd"),
    ("pytest py.test", "--basetemp --pastebin"),
    ("tox", "exec e devenv d -x --override -c --conf"),
    ("pylint", "--init-h --load --rc"),
    ("pyright", "--pythonpath"),
    ("rubocop", "-r"),
    ("bun", "x create publish"),
    ("deno", "eval install -A --allow-all --allow-run -"),
    ("go", "generate -w -exec -toolexec -vettool -"),
    ("pip", "config --index-url --extra --trusted-host -i --python --target -t --log"),
    ("pipx", "run"),
    ("uv", "--index-url --extra-index-url --default-index publish"),
    ("gem", "exec push signin"),
    ("sort", "--co"),
    ("rg", "--pre --hostname-bin"),
    ("ag bat", "--pager"),
    ("ack", "--pager --ackrc"),
    ("man", "-P --pager -H --html -C --config-file"),
    ("wget", "--post --body -e --execute --use-askpass --input -i --method --config"),
    ("find", "-delete -fprint -fls -files0-from"),
    ("split", "--filter"),
    ("pandoc", "-F --filter -L --lua-filter"),
    ("fd fdfind", "-x -X"),
    ("less", "-k --lesskey"),
];

/// curl options that send data, read further options or files, or make curl connect to another host.
pub(super) const CURL_SENDS: &str = "-d --data -F --form -T --upl --json -K --conf --url-query --unix-socket \
    --abstract -n --netrc -E --cert --key -x --proxy --preproxy --socks --variable --expand --delegation --libcurl";

/// Git's own subcommands, except those that are handled elsewhere.
pub(super) const GIT: &str = "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore \
    check-mailmap checkout checkout-index cherry cherry-pick clean clone commit commit-graph commit-tree config \
    count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc get-tar-commit-id \
    grep hash-object help index-pack init log ls-files ls-remote ls-tree merge merge-base merge-file merge-tree mktag \
    mktree mv name-rev notes pack-objects pack-refs patch-id prune pull range-diff read-tree rebase reflog remote repack \
    replace rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-index show-ref \
    sparse-checkout stage stash status stripspace switch symbolic-ref tag unpack-file update-index var verify-commit \
    verify-pack verify-tag version whatchanged worktree write-tree";
