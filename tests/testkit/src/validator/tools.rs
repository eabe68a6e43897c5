//! Rules for the tools in a request.

use std::collections::HashSet;

use serde_json::Value;

use super::{Checked, MAX_NAME, broken, check_name, check_not_blank, refuse_if};

/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 128;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1024;

pub(super) fn check(tools: &Value) -> Checked {
    let Some(tools) = tools.as_array().filter(|tools| (1..=MAX_TOOLS).contains(&tools.len())) else {
        return broken("tools", format!("it must be an array of 1 to {MAX_TOOLS} tools, or absent"));
    };
    let mut names = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let location = format!("tools[{at}]");
        refuse_if(tool["type"] != "function", format!("{location}.type"), "it must be \"function\"")?;
        let (location, function) = (format!("{location}.function"), &tool["function"]);
        check_name(&format!("{location}.name"), &function["name"], MAX_NAME)?;
        if !names.insert(function["name"].as_str()) {
            return broken(format!("{location}.name"), format!("{} is a duplicate", function["name"]));
        }
        check_not_blank(&format!("{location}.description"), &function["description"])?;
        let length = function["description"].as_str().map_or(0, |text| text.chars().count());
        if length > MAX_DESCRIPTION {
            return broken(
                format!("{location}.description"),
                format!("{length} characters exceed the limit of {MAX_DESCRIPTION}"),
            );
        }
        check_parameters(&format!("{location}.parameters"), &function["parameters"])?;
    }
    Ok(())
}

/// Checks the choice of tools that may be called.
pub(super) fn check_choice(choice: &Value) -> Checked {
    match choice {
        Value::Null => Ok(()),
        Value::String(choice) if ["none", "auto", "required"].contains(&choice.as_str()) => Ok(()),
        _ => broken("tool_choice", "it must be none, auto or required, or absent"),
    }
}

fn check_parameters(location: &str, schema: &Value) -> Checked {
    refuse_if(schema["type"] != "object", location, "the schema must have type `object`")?;
    let properties = &schema["properties"];
    if !(properties.is_null() || properties.is_object()) {
        return broken(format!("{location}.properties"), "it must be an object");
    }
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    match required.iter().find(|name| name.as_str().is_none_or(|name| properties[name].is_null())) {
        Some(name) => broken(format!("{location}.required"), format!("{name} is not a property")),
        None => Ok(()),
    }
}
