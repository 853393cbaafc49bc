//! The skills: two of them, each with a file in a folder. Their files are resources; they never change.

use rmcp::ErrorData;
use rmcp::model::*;
use serde_json::json;

const SCHEME: &str = "skill://";
const MARKDOWN: &str = "text/markdown";

/// Each skill's name, description, and files by their paths below it.
type Told = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SKILLS: &[Told] = &[
    (
        "git-workflow",
        "Follow this team's Git conventions for branching and commits",
        &[
            (
                "SKILL.md",
                "---\nname: git-workflow\ndescription: Follow this team's Git conventions for branching and commits\n---\n\n\
                 Branch from main. How to write a message is in references/COMMITS.md.\n",
            ),
            ("references/COMMITS.md", "Say what it does, in the imperative.\n"),
        ],
    ),
    (
        "pdf-processing",
        "Extract, fill, and assemble PDF documents",
        &[
            (
                "SKILL.md",
                "---\nname: pdf-processing\ndescription: Extract, fill, and assemble PDF documents\n---\n\n\
                 Forms are in references/FORMS.md.\n",
            ),
            ("references/FORMS.md", "A form has fields.\n"),
        ],
    ),
];

fn uri(skill: &str, path: &str) -> String {
    format!("{SCHEME}{skill}/{path}")
}

/// The skill's own file as the resource that it is.
fn manual((name, description, _): &Told) -> Resource {
    Resource::new(uri(name, SKILL_MD), *name).with_description(*description).with_mime_type(MARKDOWN)
}

fn entry((name, description, files): &Told) -> Skill {
    let files = files.iter().map(|(path, text)| SkillResource::from_bytes(uri(name, path), text.as_bytes()));
    let frontmatter = SkillFrontmatter::new(*name, *description);
    Skill::new(uri(name, SKILL_MD), frontmatter, SkillResources::Files(files.collect()))
}

pub fn list() -> Vec<Skill> {
    SKILLS.iter().map(entry).collect()
}

pub fn resources() -> impl Iterator<Item = Resource> {
    SKILLS.iter().map(manual)
}

pub fn get(wanted: &str) -> Result<GetSkillResult, ErrorData> {
    let found = list().into_iter().find(|skill| skill.uri == wanted);
    found.map(GetSkillResult::new).ok_or_else(|| unknown(wanted))
}

/// The text of a file of a skill.
pub fn read(wanted: &str) -> Option<ResourceContents> {
    let mut files =
        SKILLS.iter().flat_map(|(name, _, files)| files.iter().map(move |(path, text)| (uri(name, path), text)));
    let (_, text) = files.find(|(uri, _)| uri == wanted)?;
    Some(ResourceContents::text(*text, wanted).with_mime_type(MARKDOWN))
}

/// What lies directly in a directory of a skill.
pub fn directory(wanted: &str) -> Result<ReadResourceDirectoryResult, ErrorData> {
    let root = format!("{wanted}/");
    let mut children = Vec::new();
    for skill in SKILLS {
        for (path, _) in skill.2 {
            let file = uri(skill.0, path);
            let Some(below) = file.strip_prefix(&root) else { continue };
            children.push(match below.split_once('/') {
                Some((folder, _)) => {
                    Resource::new(format!("{root}{folder}"), folder).with_mime_type(DIRECTORY_MIME_TYPE)
                }
                None if *path == SKILL_MD => manual(skill),
                None => Resource::new(file.clone(), below).with_mime_type(MARKDOWN),
            });
        }
    }
    match children.is_empty() {
        true => Err(unknown(wanted)),
        false => Ok(ReadResourceDirectoryResult::with_all_items(children)),
    }
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::invalid_params("no such skill or directory of one", Some(json!({"uri": uri})))
}
