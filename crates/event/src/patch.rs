//! What stands inside the input of a call that is itself a small language: patches, and scripts
//! that call tools.

use serde_json::Value;

use crate::tool::Deed;

const PATCH_BEGINS: &str = "*** Begin Patch";

/// The lines of a patch that name a file, and what they say is done to it.
const FILE_LINES: &[(&str, Deed)] = &[
    ("*** Add File: ", Deed::Create),
    ("*** Update File: ", Deed::Edit),
    ("*** Delete File: ", Deed::Delete),
    ("*** Move to: ", Deed::Create),
];

/// The files a patch names, in order; none for a text that is no patch.
pub(crate) fn patched_files(text: &str) -> impl Iterator<Item = (Deed, &str)> {
    let patch = text.find(PATCH_BEGINS).map_or("", |begin| &text[begin..]);
    patch.lines().filter_map(|line| {
        FILE_LINES.iter().find_map(|(mark, deed)| {
            let path = line.strip_prefix(mark)?.trim();
            (!path.is_empty()).then_some((*deed, path))
        })
    })
}

/// The command or the patch that a script hands to a tool, if it does so literally.
pub(crate) fn called_by_script(script: &str) -> Option<String> {
    let argument = |call: &str| {
        let (_, rest) = script.split_once(call)?;
        // The argument is JSON only if the model wrote it literally; the rest of the script follows
        // it.
        serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok()
    };
    let command = argument("tools.exec_command(").and_then(|arguments| {
        let command = arguments.get("cmd").or_else(|| arguments.get("command"))?;
        command.as_str().map(str::to_owned)
    });
    command.or_else(|| argument("tools.apply_patch(")?.as_str().map(str::to_owned))
}
