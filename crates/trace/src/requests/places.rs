//! New parts of a value beside an earlier one, as JSON pointers.

use serde_json::Value;

/// Places that are named at the most.
const MOST: usize = 1000;

/// Places of what is new or different in `now`. Elements of lists that only moved on are not.
#[must_use]
pub fn new_places(before: &Value, now: &Value) -> Vec<String> {
    let mut places = Vec::new();
    compare(before, now, &mut String::new(), &mut places);
    places.truncate(MOST);
    places
}

fn compare(before: &Value, now: &Value, path: &mut String, places: &mut Vec<String>) {
    match (before, now) {
        (before, now) if before == now => {}
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in now {
                let name_in_path = name.replace('~', "~0").replace('/', "~1");
                within(path, &name_in_path, |path| match before.get(name) {
                    Some(before) => compare(before, value, path, places),
                    None => places.push(path.clone()),
                });
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            let head = before.iter().zip(now).take_while(|(before, now)| before == now).count();
            let rest = (&before[head..], &now[head..]);
            let tail = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(before, now)| before == now).count();
            let (gone, new) = (&before[head..before.len() - tail], &now[head..now.len() - tail]);
            for (at, value) in new.iter().enumerate() {
                within(path, &(head + at).to_string(), |path| match gone.get(at) {
                    // Where elements came in, it is not known which of them stands for which.
                    Some(before) if new.len() == gone.len() => compare(before, value, path, places),
                    _ => places.push(path.clone()),
                });
            }
        }
        _ => places.push(path.clone()),
    }
}

fn within(path: &mut String, name: &str, look: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    look(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_came_in_or_changed_is_named() {
        let check = |before: Value, now: Value, places: &[&str]| assert_eq!(new_places(&before, &now), places);
        check(json!({"m": [1, 2], "t": [9]}), json!({"m": [1, 2, 3, 4], "t": [9]}), &["/m/2", "/m/3"]);
        check(json!({"m": [{"a": 1}]}), json!({"m": [{"a": 2, "b/c": 1}]}), &["/m/0/a", "/m/0/b~1c"]);
        check(json!({"m": [1, 9]}), json!({"m": [1, 5, 9]}), &["/m/1"]);
        check(json!({"m": [{"a": 1}, 9]}), json!({"m": [{"a": 2}, 3, 9]}), &["/m/0", "/m/1"]);
        check(json!("a"), json!({}), &[""]);
        check(json!({"gone": 1}), json!({}), &[]);
    }
}
