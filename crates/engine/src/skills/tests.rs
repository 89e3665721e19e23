use mcpmon_model::Definition;
use test_case::test_case;

use super::*;

const URI: &str = "skill://acme/notes/SKILL.md";

fn digest(text: &str) -> String {
    format!("sha256:{}", Digest::of(text.as_bytes()))
}

fn file(uri: &str, text: &str) -> String {
    format!(
        r#"{{"uri":"{uri}","digest":"{}","size":{}}}"#,
        digest(text),
        text.len()
    )
}

const MAIN: &str = "---\nname: notes\ndescription: Takes notes.\n---\nText.\n";

fn entry(resources: &str) -> String {
    let frontmatter = r#"{"name":"notes","description":"Takes notes."}"#;
    format!(r#"{{"uri":"{URI}","frontmatter":{frontmatter},"resources":{resources}}}"#)
}

fn error(entry: &str) -> String {
    let parsed = Skill::parse(RawJson::trusted(entry));
    parsed.expect_err("it is none").to_string()
}

#[test]
fn each_file_is_checked_against_the_manifest() {
    let files = [file(URI, MAIN), file("skill://acme/notes/a.md", "A")];
    let entry = entry(&format!("[{}]", files.join(",")));
    let skill = Skill::parse(RawJson::trusted(&entry)).expect("a skill");
    let verified = |uri: &str, text: &str| {
        skill
            .verify(uri, text.as_bytes())
            .map_err(|error| error.to_string())
    };
    assert_eq!(verified(URI, MAIN), Ok(()));
    assert_eq!(verified("skill://acme/notes/a.md", "A"), Ok(()));
    let told = verified("skill://acme/notes/a.md", "B").expect_err("another text");
    assert!(told.starts_with("the manifest says 559aead08264"), "{told}");
    assert_eq!(
        verified("skill://acme/notes/a.md", "AA"),
        Err("the manifest says 1 bytes, and 2 came".to_owned())
    );
    assert_eq!(
        verified("skill://acme/notes/b.md", "A"),
        Err("the manifest does not name this file".to_owned())
    );
}

#[test]
fn of_a_dynamic_skill_the_head_is_checked_alone() {
    let entry = entry("\"dynamic\"");
    let skill = Skill::parse(RawJson::trusted(&entry)).expect("a skill");
    assert_eq!(skill.verify(URI, MAIN.as_bytes()), Ok(()));
    assert_eq!(skill.verify("skill://acme/notes/any.md", b"any"), Ok(()));
    assert!(
        skill
            .verify(URI, MAIN.replace("Takes", "Sends").as_bytes())
            .is_err()
    );
}

#[test_case("null" => "its files are neither a list nor dynamic"; "nothing")]
#[test_case("\"static\"" => "its files are neither a list nor dynamic"; "another word")]
#[test_case("[]" => "its manifest does not name SKILL.md"; "no file")]
#[test_case(r#"[{"uri":"skill://acme/notes/SKILL.md","digest":"sha256:00","size":1}]"# => "a digest is no sha256:HEX"; "half a digest")]
#[test_case(r#"[{"uri":"skill://acme/notes/SKILL.md","digest":"md5:00","size":1}]"# => "a digest is no sha256:HEX"; "another digest")]
#[test_case(r#"[{"uri":"skill://acme/other/a.md"}]"# => "a file is outside its directory"; "beside it")]
#[test_case(r#"[{"uri":"skill://acme/notes/../a.md"}]"# => "a file is outside its directory"; "a step back")]
#[test_case(r#"[{"uri":"skill://acme/notes/%2E%2e/a.md"}]"# => "a file is outside its directory"; "an escaped step back")]
#[test_case(r#"[{"uri":"skill://acme/notes/a%2Fb.md"}]"# => "a file is outside its directory"; "an escaped slash")]
fn manifests_that_are_none(resources: &str) -> String {
    error(&entry(resources))
}

#[test]
fn a_manifest_names_each_file_once_with_its_size() {
    let main = file(URI, MAIN);
    assert_eq!(
        error(&entry(&format!("[{main},{main}]"))),
        "a file is named twice"
    );
    let sizes = ["-1", "1.5", "\"1\"", "null"];
    for size in sizes {
        let resources = format!(r#"[{{"uri":"{URI}","digest":"{}","size":{size}}}]"#, digest(MAIN));
        assert_eq!(error(&entry(&resources)), "a size is no number of bytes");
    }
    let many: Vec<String> = (0..=MAX_FILES)
        .map(|number| file(&format!("skill://acme/notes/{number}"), ""))
        .collect();
    assert_eq!(
        error(&entry(&format!("[{}]", many.join(",")))),
        "it has more than 512 files"
    );
}

#[test_case(r#"{"frontmatter":{}}"# => "it has no URI"; "no uri")]
#[test_case(r#"{"uri":"skill://notes/skill.md"}"# => "its URI does not end in /SKILL.md"; "another file")]
#[test_case(r#"{"uri":"skill://notes/SKILL.md"}"# => "it has no frontmatter"; "no frontmatter")]
#[test_case(r#"{"uri":"skill://notes/SKILL.md","frontmatter":{"name":"notes"}}"# => "its frontmatter has no description"; "no description")]
#[test_case(r#"{"uri":"skill://notes/SKILL.md","frontmatter":{"name":"mail","description":""}}"#
    => "its name is not the last part of its path"; "another name")]
#[test_case(r#"{"uri":"skill://notes/SKILL.md","frontmatter":{"name":"notes","description":""}}"# => "it names no files"; "no files")]
fn entries_that_are_none(entry: &str) -> String {
    error(entry)
}

#[test_case("skill://acme/notes/SKILL.md" => true; "the main file")]
#[test_case("skill://acme/notes/a/b.md" => true; "a file")]
#[test_case("SKILL://ACME/notes/a.md" => true; "in another case")]
#[test_case("skill://acme/notes/%61.md" => true; "escaped")]
#[test_case("skill://acme/other/../notes/a.md" => true; "a step back")]
#[test_case("skill://acme/notes" => false; "the directory")]
#[test_case("skill://acme/notes2/a.md" => false; "another skill")]
#[test_case("file:///acme/notes/a.md" => false; "another scheme")]
fn files_of_a_skill(uri: &str) -> bool {
    contains(URI, uri)
}

#[test]
fn the_order_of_files_says_nothing() {
    let (one, other) = (file(URI, MAIN), file("skill://acme/notes/a.md", "A"));
    let sorted = entry(&format!("[{one},{other}]"));
    assert_eq!(in_order(RawJson::trusted(&sorted)), None);
    let turned = entry(&format!("[{other},{one}]"));
    let ordered = in_order(RawJson::trusted(&turned)).expect("it was in another order");
    assert_eq!(
        Definition::of(RawJson::trusted(&ordered)).hash,
        Definition::of(RawJson::trusted(&sorted)).hash
    );
    assert_eq!(in_order(RawJson::trusted(&entry("\"dynamic\""))), None);
}

#[test_case(r#"{"contents":[{"uri":"a","text":"é"}]}"# => Ok(vec![(Some("a".to_owned()), "é".as_bytes().to_vec())]); "a text")]
#[test_case(r#"{"contents":[{"blob":"AP8="}]}"# => Ok(vec![(None, vec![0, 255])]); "a blob")]
#[test_case(r#"{"contents":[{"blob":"AP8"}]}"# => Err("the blob is no base64".to_owned()); "half a blob")]
#[test_case(r#"{"contents":[{"text":"a","blob":""}]}"# => Err("there are a text and a blob".to_owned()); "both")]
#[test_case(r#"{"contents":[{"text":"a","Text":"b"}]}"# => Err("text is there twice, or in another spelling".to_owned()); "another spelling")]
#[test_case(r#"{"contents":[{"text":"a","text":"b"}]}"# => Err("text is there twice, or in another spelling".to_owned()); "twice")]
#[test_case(r#"{"contents":[{}]}"# => Err("there is neither text nor blob".to_owned()); "nothing")]
#[test_case("{}" => Err("there are no contents".to_owned()); "no contents")]
fn contents_that_are_read(result: &str) -> Result<Vec<ResourceContent>, String> {
    contents(RawJson::trusted(result)).map_err(|error| error.to_string())
}
