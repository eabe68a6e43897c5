//! Tests with frames that the client library never sends, and with services for generic gRPC clients.

use std::path::PathBuf;

use agentd_core::knowledge::DocumentQuery;
use agentd_proto::{
    MAX_CHUNK_BYTES, MAX_UPLOAD_BYTES,
    client::{Client, NewSession},
    socket::connect,
    v1::{self, sessions_client::SessionsClient, upload_chunk::Part},
};
use futures_util::stream;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::stopping::StuckDaemon;

async fn raw_channel(path: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(connect(&path).await?)) }
    });
    Endpoint::from_static("http://agentd.local").connect_with_connector(connector).await.unwrap()
}

/// Runs a test with a raw connection, a client and a session.
fn with_daemon<F: Future<Output = ()>>(test: impl FnOnce(Channel, Client, String) -> F) {
    let stuck_daemon = StuckDaemon::new("1s");
    stuck_daemon.runtime.block_on(async {
        let client = Client::connect(&stuck_daemon.home.socket()).await.unwrap();
        let session = client.create_session(&NewSession::default()).await.unwrap();
        test(raw_channel(stuck_daemon.home.socket()).await, client, session.session.summary.id.to_string()).await;
    });
}

#[test]
fn uploads_are_atomic() {
    with_daemon(async |channel, client, session| {
        let content = vec![7_u8; 2 * MAX_CHUNK_BYTES + 1];
        assert_eq!(client.upload(&session, "a.bin", &content[..]).await.unwrap().path, "uploads/a.bin");
        assert_eq!(client.upload(&session, "empty", &[][..]).await.unwrap().path, "uploads/empty");
        let endless = client.upload(&session, "zero", tokio::io::repeat(0)).await.unwrap_err();
        assert!(endless.message.contains("64 MiB"), "{endless:?}");

        let header = || Part::Header(v1::UploadHeader { session: session.clone(), name: "b".into(), path: None });
        let data = |size| Part::Data(vec![0; size]);
        let check = async |parts: Vec<Part>, part: &str| {
            let chunks = parts.into_iter().map(|part| v1::UploadChunk { part: Some(part) }).collect::<Vec<_>>();
            let status = SessionsClient::new(channel.clone()).upload(stream::iter(chunks)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert!(status.message().contains(part), "{part:?} is missing in {status:?}");
        };
        check(vec![], "header").await;
        check(vec![data(1)], "header").await;
        check(vec![header(), data(1), header()], "only one header").await;
        check(vec![header(), data(1), Part::Abort(v1::UploadAbort {})], "aborted").await;
        check(vec![header(), data(MAX_CHUNK_BYTES + 1)], "chunk").await;
        let pieces = MAX_UPLOAD_BYTES / MAX_CHUNK_BYTES + 1;
        let too_many = std::iter::once(header()).chain((0..pieces).map(|_| data(MAX_CHUNK_BYTES))).collect();
        check(too_many, "larger than 64 MiB").await;
    });
}

#[test]
fn health_and_reflection_services_answer() {
    with_daemon(async |channel, client, session| {
        for service in ["", "agentd.v1.Turns"] {
            let request = HealthCheckRequest { service: service.to_owned() };
            let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
            assert_eq!(health.status(), ServingStatus::Serving, "{service:?}");
        }
        let list = MessageRequest::ListServices(String::new());
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
        let mut reflection = ServerReflectionClient::new(channel);
        let mut answers = reflection.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
        let Some(MessageResponse::ListServicesResponse(listed)) =
            answers.message().await.unwrap().unwrap().message_response
        else {
            panic!("expected a list of services");
        };
        let names: Vec<_> = listed.service.iter().map(|service| service.name.as_str()).collect();
        for name in ["Turns", "Sessions", "Interrupts", "Daemon"] {
            assert!(names.contains(&format!("agentd.v1.{name}").as_str()), "{name} is not in {names:?}");
        }

        // A note reports that the limit was reduced.
        let query =
            DocumentQuery { text: "zebra".to_owned(), regex: false, limit: 500, neighbours: false, begin_by: None };
        let notes = client.search_documents(&session, &[], &query, |_| {}).await.unwrap().notes;
        assert!(notes.iter().any(|note| note.contains("at most 200 results") && note.contains("500")), "{notes:?}");
    });
}
