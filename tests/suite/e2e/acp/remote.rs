//! Editors of a daemon on another machine.

use super::{super::remote::Laptop, *};

#[tokio::test]
async fn editor_files_are_uploaded_and_its_folder_is_one_of_the_host() {
    let world = World::start().await;
    let laptop = Laptop::of(&world).await;
    let file = world.write("shop/a.txt", "there").canonicalize().unwrap();
    let folder = file.parent().unwrap();
    let mut editor = Editor::silent(&laptop);
    let files = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    editor.gives("initialize", json!({"protocolVersion": 1, "clientCapabilities": files})).await;
    let servers = json!([{"name": "mine", "command": "/bin/true", "args": [], "env": []}]);
    let result = editor.gives("session/new", json!({"cwd": folder, "mcpServers": servers})).await;
    let session = result["sessionId"].as_str().unwrap().to_owned();
    world.model.reply(Reply::tool_call("read_file", json!({"path": "/project/a.txt"})));
    world.model.reply(Reply::text("Read."));
    let uri = format!("file://{}", file.display());
    let link = json!({"type": "resource_link", "name": "a.txt", "uri": uri});
    let prompt = json!([{"type": "text", "text": "Read"}, link]);
    let id = editor.begin("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    assert_eq!(editor.ends(id).await["stopReason"], "end_turn");
    // An equal path of this machine is not the file of the host.
    let asked = world.model.requests().remove(0).body["messages"].to_string();
    assert!(asked.contains("uploads/a.txt") && !asked.contains("/project/a.txt"), "{asked}");
    assert!(last_result(&world).contains("there"));
    assert!(editor.files.asked.is_empty(), "files of the host are not those of the editor");
    assert!(editor.words("agent_message_chunk").contains("are of this machine, and are not started at ssh://"));

    // Neither a folder that the host lacks nor one with the daemon's own files is a project.
    for cwd in ["/no/such", file.to_str().unwrap(), world.data().to_str().unwrap(), world.path().to_str().unwrap()] {
        world.model.reply(Reply::text("Hello."));
        let new = json!({"cwd": cwd, "additionalDirectories": ["/tmp"], "mcpServers": []});
        let session = editor.gives("session/new", new).await["sessionId"].as_str().unwrap().to_owned();
        editor.prompt(&session, "Greet me").await;
        let said = editor.words("agent_message_chunk");
        assert!(said.contains(&format!("{cwd} is not a project folder of {}", laptop.address)), "{said}");
        assert!(said.contains("further folders of the editor are of this machine"), "{said}");
        let view = world.client().await.session(&session).await.unwrap();
        assert_eq!(view.session.settings.project, None, "{cwd}");
    }
}
