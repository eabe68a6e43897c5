//! Configuration errors, reported before anything is changed.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::daemon::Home;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn check_config_only_reads() {
    let home = Home::new();
    home.configure("agentd.yaml", "service: {log_level: debug}\n");
    let mut command = home.command();
    let output = home.run(command.arg("--check-config").env("MODEL_BASIC_API_KEY", "sk-very-secret"));
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("service.log_level: set by"), "{}", output.stdout);
    assert!(output.stdout.contains("models.base.api_key: set by $MODEL_BASIC_API_KEY"), "{}", output.stdout);
    assert!(!output.stdout.contains("sk-very-secret"));
    assert!(!home.data().exists());

    home.configure("agentd.yaml", "service: {log_levle: debug}\n");
    home.run(home.command().arg("--check-config")).assert_exit(2, &["did you mean `log_level`?"]);
}

#[test]
fn each_recipe_in_models_md_is_a_valid_configuration() {
    const PAGE: &str = include_str!("../../../docs/models.md");
    let recipes = PAGE.split("\n## ").find(|section| section.starts_with("Recipes\n")).unwrap();
    let blocks = recipes.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let mut count = 0;
    // The page also has the configuration of a gateway.
    for block in blocks.filter(|block| !block.starts_with("model_list:")) {
        let home = Home::new();
        home.configure("models.yaml", block);
        let mut command = home.command();
        command.arg("--check-config").env("ANTHROPIC_API_KEY", "sk-x");
        for name in block.split("${").skip(1).map(|rest| rest.split('}').next().unwrap()) {
            command.env(name, "sk-x");
        }
        let output = home.run(&mut command);
        assert_eq!(output.status.code(), Some(0), "{block}{}", output.stderr);
        count += 1;
    }
    assert!(count >= 11, "{count}");
}

#[test]
fn user_files_override_system_files() {
    let home = Home::new();
    let system = home.path().join("system/agentd");
    std::fs::create_dir_all(&system).unwrap();
    std::fs::write(system.join("agentd.yaml"), "turns: {max_steps: 3}\nsessions: {confirm_exec: false}\n").unwrap();
    home.configure("agentd.yaml", "turns: {max_steps: 4}\n");
    let output = home.run(home.command().arg("--check-config"));
    assert!(output.stdout.contains("sessions.confirm_exec: set by /tmp"), "{}", output.stdout);
    let steps = output.stdout.lines().find(|line| line.starts_with("turns.max_steps")).unwrap();
    assert!(steps.ends_with("config/agentd.yaml"), "{steps}");
}

#[test]
fn wrong_usage_exits_with_code_2() {
    let home = Home::new();
    home.run(home.command().arg("--data-dri")).assert_exit(2, &["--data-dir"]);
    home.run(home.command().env_remove("AGENTD_DATA_DIR").env_remove("HOME"))
        .assert_exit(2, &["HOME is not set", "hint: "]);
    let help = home.run(home.command().arg("--help"));
    assert!(help.stdout.contains("Examples:"), "{}", help.stdout);
}

#[test]
fn files_writable_by_others_are_ignored() {
    let home = Home::new();
    home.configure("agentd.yaml", "sessions: {confirm_exec: false}\n");
    home.configure("prompts/system.md", "Obey.\n");
    let config = home.path().join("config");
    for (path, name) in [
        (config.clone(), "config"),
        (config.join("agentd.yaml"), "agentd.yaml"),
        (config.join("prompts"), "prompts"),
        (config.join("prompts/system.md"), "system.md"),
    ] {
        let before = fs::metadata(&path).unwrap().permissions();
        mode(&path, 0o777);
        let check = |command: &mut std::process::Command| {
            home.run(command).assert_exit(2, &[name, "unsafe permissions: it is writable by all users", "hint: "]);
        };
        check(home.command().arg("--check-config"));
        check(&mut home.command());
        fs::set_permissions(&path, before).unwrap();
    }
    assert!(!home.data().exists());
    home.run(home.command().arg("--check-config")).assert_exit(0, &[]);

    fs::create_dir(home.data()).unwrap();
    mode(&home.data(), 0o777);
    home.run(&mut home.command()).assert_exit(1, &["the data folder", "it is writable by all users", "chmod 700"]);
    assert!(fs::read_dir(home.data()).unwrap().next().is_none(), "the unsafe folder stays empty");
}

/// Runs only as root, because only root can change the owner of a file.
#[test]
fn files_of_another_user_are_ignored() {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    home.configure("hitl_rules.yaml", "global: {enable_approval: false}\n");
    let file = home.path().join("config/hitl_rules.yaml");
    std::os::unix::fs::chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    home.run(&mut home.command())
        .assert_exit(2, &["hitl_rules.yaml", "it is owned by user 65534", "AGENTD_CONFIG_DIR"]);
    fs::remove_file(&file).unwrap();
    fs::create_dir(home.data()).unwrap();
    std::os::unix::fs::chown(home.data(), Some(NOBODY), Some(NOBODY)).unwrap();
    home.run(&mut home.command()).assert_exit(1, &["the data folder", "it is owned by user 65534", "AGENTD_DATA_DIR"]);
}
