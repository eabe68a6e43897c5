//! Documents that open with a password only.

use std::sync::Arc;

use agentd_core::{
    knowledge::{OpenDocument, PartRange, Password},
    ports::Knowledge as _,
};
use tokio_util::sync::CancellationToken;

use crate::library::{Shop, first, open};

fn with(name: &str, password: &str) -> OpenDocument {
    OpenDocument { password: Some(Password::new(password.to_owned())), ..open(name) }
}

#[tokio::test]
async fn a_password_opens_what_is_read_and_searched_and_nothing_of_it_is_kept() {
    let shop = Shop::new();
    for (name, word, place) in [("password.pdf", "QUARTZ-2", "p. 2"), ("password.xlsx", "first", "Totals!A2:D3")] {
        let read = async |document: OpenDocument| {
            shop.library.read(document, PartRange::default(), Arc::new(|_| {}), CancellationToken::new()).await
        };
        let refused = read(open(name)).await.unwrap_err();
        assert!(refused.needs_password() && refused.hint().unwrap().contains("ask for the password"), "{refused}");
        assert!(read(with(name, "wrong")).await.unwrap_err().needs_password(), "{name}");
        let reading = read(with(name, "secret")).await.unwrap();
        assert!(reading.parts.iter().any(|part| part.text.contains(word)), "{reading:?}");
        // Before and after it is found with the password, it is not found without.
        for _ in 0..2 {
            let finds = shop.search(vec![open(name), open("latin.pdf")], "zebra").await;
            assert_eq!((finds.locked.len(), finds.searched), (1, 1), "{finds:?}");
            let finds = shop.search(vec![with(name, "secret")], word).await;
            assert!(finds.hits.first().is_some_and(|hit| hit.place == place), "{}", first(&finds));
            assert_eq!((finds.searched, finds.locked.len()), (1, 0));
            assert_eq!(shop.search(vec![with(name, "wrong")], word).await.locked.len(), 1);
        }
        let states = shop.library.states(vec![open(name)]).await.unwrap();
        assert!(states[0].chunks.is_none() && states[0].problem.as_ref().unwrap().contains("left out of the index"));
    }
    // That of latin.pdf, which says the same, is all that there is.
    assert_eq!(shop.library.stats().await.unwrap().documents, 1);
}

#[tokio::test]
async fn documents_of_office_2007_are_opened_too() {
    let shop = Shop::new();
    let read = async |password: &str| {
        let document = with("more/standard.docx", password);
        shop.library.read(document, PartRange::default(), Arc::new(|_| {}), CancellationToken::new()).await
    };
    assert!(read("wrong").await.unwrap_err().needs_password());
    assert!(read("secret").await.unwrap().parts[0].text.contains("Doors are closed at ten"));
}
