//! Clients find the daemon for their data folder, even if parts of that folder were removed.

use super::*;

/// A user's environment: a home, and a runtime folder if a desktop or a login has created one. No variable contains the
/// path of the socket.
struct Person {
    home: TempHome,
    model: ModelServer,
}

impl Person {
    async fn new() -> Self {
        let (model, home) = TempHome::with_server().await;
        let person = Self { home, model };
        person.make_runtime();
        person
    }

    fn runtime(&self) -> PathBuf {
        self.home.path().join("runtime")
    }

    fn make_runtime(&self) {
        // A daemon whose folder was removed may recreate it first.
        fs::create_dir_all(self.runtime()).unwrap();
        fs::set_permissions(self.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>, runtime: Option<&Path>) -> Command {
        let mut command = self.home.command(program);
        command.env_remove("AGENTD_SOCKET");
        if let Some(runtime) = runtime {
            command.env("XDG_RUNTIME_DIR", runtime);
        }
        command
    }

    async fn agentctl(&self, runtime: Option<&Path>, args: &[&str]) -> Output {
        let mut command = self.command(program("agentctl"), runtime);
        command.args(args);
        Running::spawn(command).output(Vec::new()).await
    }

    /// Runs `agentctl` as if from a desktop session.
    async fn desk(&self, args: &[&str]) -> Output {
        self.agentctl(Some(&self.runtime()), args).await
    }

    /// Runs `agentctl` as if from cron, `su`, `sudo -u`, or a container.
    async fn cron(&self, args: &[&str]) -> Output {
        self.agentctl(None, args).await
    }

    async fn status(&self, runtime: Option<&Path>) -> Value {
        self.agentctl(runtime, &["status", "--json"]).await.exits(0).json()
    }

    async fn start(&self) -> u32 {
        let started = self.desk(&["start", "--json"]).await.exits(0).json();
        assert_eq!(started["started"], true);
        u32::try_from(started["pid"].as_u64().unwrap()).unwrap()
    }

    /// Removes everything by which clients find the daemon.
    fn remove_socket_traces(&self) {
        fs::remove_file(self.lock()).unwrap();
        fs::remove_dir_all(self.runtime()).unwrap();
        self.make_runtime();
    }

    fn lock(&self) -> PathBuf {
        self.home.data().join("agentd.lock")
    }

    /// Returns the path of the socket that the daemon has recorded.
    fn recorded_socket(&self) -> PathBuf {
        let record = fs::read_to_string(self.lock()).unwrap_or_default();
        record.lines().find_map(|line| line.strip_prefix("socket ")).map(PathBuf::from).unwrap_or_default()
    }
}

fn signal(pid: u32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

#[tokio::test]
async fn cron_and_desktop_find_the_same_daemon() {
    let person = Person::new().await;
    let pid = person.start().await;
    assert_eq!(person.recorded_socket(), person.runtime().join("agentd/agentd.sock"));
    assert_eq!(person.status(None).await["pid"], pid);
    assert_eq!(person.cron(&["run", "Hi"]).await.exits(0).stdout, "Hello from the model server.\n");
    assert_eq!(person.cron(&["start", "--json"]).await.exits(0).json()["started"], false);
    person.cron(&["stop"]).await.exits(0).says(&["the daemon has stopped"]);
    person.desk(&["status"]).await.exits(3);

    let started = person.cron(&["start", "--json"]).await.exits(0).json();
    assert_eq!(started["started"], true);
    assert_eq!(person.status(Some(&person.runtime())).await["pid"], started["pid"]);
    person.desk(&["stop"]).await.exits(0);
    person.cron(&["status"]).await.exits(3);
}

#[tokio::test]
async fn homes_without_a_runtime_folder_have_separate_daemons() {
    let (one, other) = (Person::new().await, Person::new().await);
    let run = async |person: &Person| {
        // The two users have different homes, but the same environment otherwise.
        let mut command = person.command(program("agentctl"), None);
        command.env_remove("AGENTD_DATA_DIR").env_remove("AGENTD_CONFIG_DIR").args(["status", "--json"]);
        let mut start = person.command(program("agentctl"), None);
        start.env_remove("AGENTD_DATA_DIR").env_remove("AGENTD_CONFIG_DIR").arg("start");
        Running::spawn(start).output(Vec::new()).await.exits(0);
        Running::spawn(command).output(Vec::new()).await.exits(0).json()
    };
    let (first, second) = (run(&one).await, run(&other).await);
    assert_ne!((&first["pid"], &first["socket"]), (&second["pid"], &second["socket"]));
    for (person, status) in [(&one, &first), (&other, &second)] {
        let data = person.home.path().join(".local/share/agentd");
        assert_eq!(status["data_dir"], data.to_str().unwrap());
    }
}

#[tokio::test]
async fn data_folders_in_one_runtime_folder_have_separate_daemons() {
    let (one, other) = (Person::new().await, Person::new().await);
    let pid = one.start().await;
    let runtime = one.runtime();
    other.agentctl(Some(&runtime), &["status"]).await.exits(3);
    other.agentctl(Some(&runtime), &["stop"]).await.exits(0).says(&["no daemon is running"]);
    let second = other.agentctl(Some(&runtime), &["start", "--json"]).await.exits(0).json();
    assert_eq!(second["started"], true);
    assert_eq!(other.status(Some(&runtime)).await["pid"], second["pid"]);
    assert_eq!(other.status(None).await["data_dir"], other.home.data().to_str().unwrap());
    assert_eq!(one.status(None).await["pid"], pid);
    assert_eq!(one.status(Some(&runtime)).await["pid"], pid);
}

#[tokio::test]
async fn removed_socket_is_bound_again() {
    let person = Person::new().await;
    let pid = person.start().await;
    let socket = person.recorded_socket();
    fs::remove_file(&socket).unwrap();
    assert_eq!(person.status(Some(&person.runtime())).await["pid"], pid);
    assert!(socket.exists());
    // The runtime folder is removed at the last logout, and recreated at the next login.
    fs::remove_dir_all(person.runtime()).unwrap();
    person.make_runtime();
    assert_eq!(person.desk(&["run", "Hi"]).await.exits(0).stdout, "Hello from the model server.\n");
    assert_eq!(person.status(None).await["pid"], pid);
    assert!(socket.exists());
    assert!(person.home.log().contains("the socket was missing and is bound again"), "{}", person.home.log());
    person.desk(&["doctor"]).await.exits(0);
    person.desk(&["stop"]).await.exits(0);
    assert!(!socket.exists());
}

#[tokio::test]
async fn socket_moves_if_its_place_cannot_be_bound() {
    let person = Person::new().await;
    let pid = person.start().await;
    fs::remove_dir_all(person.runtime()).unwrap();
    fs::write(person.runtime(), "in the way").unwrap();
    assert_eq!(person.status(None).await["pid"], pid);
    let socket = person.recorded_socket();
    assert!(!socket.starts_with(person.runtime()), "{}", socket.display());
    assert_eq!(person.status(Some(&person.runtime())).await["socket"], socket.to_str().unwrap());
    assert!(person.home.log().contains("bound at another path"), "{}", person.home.log());
    person.cron(&["stop"]).await.exits(0);
    assert!(!socket.exists());
}

#[tokio::test]
async fn removed_lock_file_is_recreated_and_admits_no_second_daemon() {
    let person = Person::new().await;
    let pid = person.start().await;
    fs::remove_file(person.lock()).unwrap();
    let second = Running::spawn(person.command(program("agentd"), None)).output(Vec::new()).await;
    second.exits(1).says(&["already running", "hint:"]);
    // The daemon answers at the default location.
    assert_eq!(person.status(Some(&person.runtime())).await["pid"], pid);
    until_true("the lock file exists again", || person.recorded_socket().exists()).await;
    assert_eq!(person.status(None).await["pid"], pid);

    // If the socket is missing, clients can only find the daemon by its lock on the folder for a few seconds.
    for command in [&["status"][..], &["run", "Hi"], &["sessions", "list"], &["audit", "verify"]] {
        person.remove_socket_traces();
        person.desk(command).await.exits(0);
        assert_eq!(person.status(None).await["pid"], pid);
    }
    person.remove_socket_traces();
    person.cron(&["stop"]).await.exits(0).says(&["the daemon has stopped"]);
    person.desk(&["status"]).await.exits(3);
}

#[tokio::test]
async fn unresponsive_daemon_is_reported_and_can_be_stopped() {
    let person = Person::new().await;
    let pid = person.start().await;
    signal(pid, Signal::SIGSTOP);
    let pid_word = format!("pid {pid}");
    for args in [&["status"][..], &["run", "Hi"], &["start"]] {
        person.desk(args).await.exits(3).says(&[&pid_word, "does not answer", "agentctl stop"]);
    }
    person.desk(&["doctor"]).await.exits(3).shows(&[&pid_word, "agentctl stop"]);
    person.desk(&["stop"]).await.exits(0).says(&["it was sent a signal", "the daemon has stopped"]);
    person.desk(&["run", "Hi"]).await.exits(0);
}

#[tokio::test]
async fn stale_lock_file_is_ignored() {
    let person = Person::new().await;
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    fs::create_dir_all(person.home.data()).unwrap();
    let record = format!("{}\nsocket {}\n", stranger.id(), person.runtime().join("none.sock").display());
    fs::write(person.lock(), record).unwrap();
    person.desk(&["status"]).await.exits(3);
    person.desk(&["stop"]).await.exits(0).says(&["no daemon is running"]);
    assert_eq!(stranger.try_wait().unwrap(), None, "an unrelated process is not stopped");
    person.desk(&["run", "Hi"]).await.exits(0);
    person.cron(&["stop"]).await.exits(0);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// The chat has started the daemon, and must report that the daemon has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_survives_the_end_of_the_daemon_it_started() {
    let person = Person::new().await;
    let mut terminal = Terminal::ready(&person.home, &[]);
    person.home.ok(["stop"]).await.says(&["the daemon has stopped"]);
    terminal.hears("Hi", "the daemon is back");
    terminal.presses_last("\r", "server.");

    person.model.reply(Reply::deltas(["It hangs.\n\n", "Now."]).hang_after_text("It hangs."));
    terminal.says_for("Slowly", "It hangs.");
    let pid = person.home.json(["status"]).await["pid"].as_u64().unwrap();
    signal(u32::try_from(pid).unwrap(), Signal::SIGKILL);
    terminal.sees_all(&["waiting for the daemon", "the daemon is back"]);
    terminal.sees_last("interrupted");
    terminal.hears("/continue", "server.");
    terminal.leaves();
    person.home.ok(["stop"]).await;
}

#[tokio::test]
async fn socket_option_selects_exactly_that_daemon() {
    let (one, other) = (Person::new().await, Person::new().await);
    let pid = one.start().await;
    let socket = one.recorded_socket();
    let socket = socket.to_str().unwrap();
    let status = other.desk(&["--socket", socket, "status", "--json"]).await.exits(0).json();
    assert_eq!(status["pid"], pid);
    other.desk(&["--socket", socket, "doctor"]).await.shows(&["do not set a socket"]);
    // If another socket is configured, the daemon is not found.
    let elsewhere = one.runtime().join("elsewhere.sock");
    one.desk(&["--socket", elsewhere.to_str().unwrap(), "status"]).await.exits(3);
    one.desk(&["--socket", elsewhere.to_str().unwrap(), "stop"]).await.exits(0).says(&["no daemon is running"]);
    assert_eq!(one.status(None).await["pid"], pid);
}
