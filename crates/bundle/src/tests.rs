//! Bundles that a host accepts, and bundles that it refuses.

use mcpmon_model::Digest;
use tar::{Builder, EntryType, Header};
use test_case::test_case;

use crate::{
    Bundle, BundleError, BundleFile, BundleId, BundleKey, FORMAT, MAX_BUNDLE_BYTES, MAX_FILE_BYTES, Manifest,
    PublicKey, Succession, VerifiedBundle, sign,
};

const POLICY: &str = "version: 1\nmode: enforce\n";

fn key() -> BundleKey {
    BundleKey::from_pem(BundleKey::generate().unwrap().as_bytes()).unwrap()
}

fn manifest(serial: u64) -> Manifest {
    Manifest {
        format: FORMAT,
        serial,
        name: None,
        created: "2026-11-26T12:00:00Z".parse().unwrap(),
        expires: None,
        files: Vec::new(),
    }
}

fn files() -> Vec<(BundleFile, String)> {
    vec![
        (BundleFile::Pins, "version: 1\n".to_owned()),
        (BundleFile::Policy, POLICY.to_owned()),
    ]
}

fn bundle(serial: u64) -> Bundle {
    Bundle::new(manifest(serial), files()).unwrap()
}

/// Signs any bytes, even those that [`sign`] refuses.
fn signed_anyhow(unsigned: &[u8], key: &BundleKey) -> Vec<u8> {
    let body = &unsigned[..unsigned.len() - super::archive::END_BYTES];
    [body, &super::signed::trailer(&key.public(), &key.sign(unsigned))].concat()
}

fn open(bytes: &[u8], keys: &[PublicKey]) -> Result<VerifiedBundle, BundleError> {
    VerifiedBundle::open(bytes, keys)
}

#[test]
fn a_signed_bundle_is_read_as_it_was_built() {
    let (key, bundle) = (key(), bundle(7));
    let bytes = sign(&bundle.to_tar(), &key).unwrap();
    let opened = open(&bytes, &[self::key().public(), key.public()]).unwrap();
    assert_eq!(opened.bundle, bundle);
    assert_eq!(opened.key, key.public());
    assert_eq!(opened.id().serial, 7);
    assert_eq!(opened.digest, Digest::of(&bytes));
    assert_eq!(
        bundle.to_tar(),
        self::bundle(7).to_tar(),
        "the same files give the same bytes"
    );
    let names: Vec<&str> = bundle.files.iter().map(|(file, _)| file.name()).collect();
    assert_eq!(names, ["policy.yaml", "pins.yaml"]);
    assert_eq!(sign(&bytes, &key), Err(BundleError::Signed));
}

#[test]
fn every_bit_is_signed() {
    let key = key();
    let bytes = sign(&bundle(7).to_tar(), &key).unwrap();
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1;
        open(&changed, &[key.public()]).expect_err("a changed byte");
    }
    for length in 0..bytes.len() {
        open(&bytes[..length], &[key.public()]).expect_err("cut short");
    }
    open(&[&bytes[..], &[0; 512]].concat(), &[key.public()]).expect_err("something behind it");
    open(&[&bytes[..], &bytes[..]].concat(), &[key.public()]).expect_err("twice");
}

#[test]
fn another_key_is_named() {
    let (ours, theirs) = (key(), key());
    let bytes = sign(&bundle(7).to_tar(), &theirs).unwrap();
    let refused = open(&bytes, &[ours.public()]).unwrap_err();
    assert_eq!(refused, BundleError::UnknownKey { key: theirs.public() });
    assert!(
        refused.to_string().contains(&theirs.public().to_string()),
        "{refused}"
    );
    assert!(matches!(open(&bytes, &[]), Err(BundleError::UnknownKey { .. })));
    // Another key's signature that names our key.
    let their_signature = theirs.sign(&bundle(7).to_tar());
    let unsigned = bundle(7).to_tar();
    let body = &unsigned[..unsigned.len() - super::archive::END_BYTES];
    let forged = [body, &super::signed::trailer(&ours.public(), &their_signature)].concat();
    assert_eq!(open(&forged, &[ours.public()]), Err(BundleError::BadSignature));
    assert_eq!(open(&unsigned, &[ours.public()]), Err(BundleError::Unsigned));
}

/// Returns an archive of these entries after a manifest that names `policy.yaml`.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let text = bundle(7).manifest.to_json();
    for (name, kind, content) in [("manifest.json", EntryType::Regular, &text[..])]
        .iter()
        .chain(entries)
    {
        let mut header = Header::new_ustar();
        // The name is written unchanged: `set_path` refuses some of these.
        let field = &mut header.as_ustar_mut().unwrap().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

const FILE: EntryType = EntryType::Regular;

#[test_case(&[("run.sh", FILE, b"")], "the entry `run.sh` is unknown"; "a file more")]
#[test_case(&[("signature", FILE, b"")], "the entry `signature` is unknown"; "a second signature")]
#[test_case(&[("../policy.yaml", FILE, b"")], "`../policy.yaml` has a path"; "a way up")]
#[test_case(&[("/etc/mcpmon/mcpmon.yaml", FILE, b"")], "`/etc/mcpmon/mcpmon.yaml` has a path"; "an absolute path")]
#[test_case(&[("./policy.yaml", FILE, b"")], "`./policy.yaml` has a path"; "a path to here")]
#[test_case(&[("policy.yaml", EntryType::Symlink, b"")], "`policy.yaml` is a link"; "a symbolic link")]
#[test_case(&[("policy.yaml", EntryType::Link, b"")], "`policy.yaml` is a link"; "a hard link")]
#[test_case(&[("policy.yaml", EntryType::Directory, b"")], "`policy.yaml` is a directory"; "a directory")]
#[test_case(&[("policy.yaml", EntryType::Fifo, b"")], "`policy.yaml` is of the type '6'"; "a pipe")]
#[test_case(&[("policy.yaml", EntryType::XHeader, b"12 path=../x\n")], "is of the type 'x'"; "an extended header")]
#[test_case(&[("policy.yaml", EntryType::GNULongName, b"../x")], "is of the type 'L'"; "a long name")]
#[test_case(&[("policy.yaml", FILE, POLICY.as_bytes()), ("policy.yaml", FILE, b"mode: observe\n")], "`policy.yaml` is there twice"; "a file twice")]
#[test_case(&[("policy.yaml", FILE, b"mode: observe\n")], "`policy.yaml` is not the file that manifest.json names"; "another file")]
#[test_case(&[("policy.yaml", FILE, b"\xff\xfe")], "`policy.yaml` is no UTF-8 text"; "no text")]
#[test_case(&[("policy.yaml", FILE, &[b'#'; MAX_FILE_BYTES + 1])], "`policy.yaml` is too large"; "a large file")]
#[test_case(&[("pins.yaml", FILE, b"version: 1\n")], "`policy.yaml` is missing"; "no policy")]
#[test_case(&[("policy.yaml", FILE, POLICY.as_bytes())], "`files` names others"; "a file less")]
#[test_case(&[("pins.yaml", FILE, b"version: 1\n"), ("policy.yaml", FILE, POLICY.as_bytes())], "`files` names others"; "another order")]
#[test_case(&[("policy.yaml", FILE, POLICY.as_bytes()), ("manifest.json", FILE, b"{}")], "`manifest.json` is there twice"; "two manifests")]
fn what_is_signed_and_wrong_is_refused(entries: &[(&str, EntryType, &[u8])], expected: &str) {
    let key = key();
    let unsigned = archive(entries);
    let refused = open(&signed_anyhow(&unsigned, &key), &[key.public()]).unwrap_err();
    assert!(refused.to_string().contains(expected), "{refused}");
    sign(&unsigned, &key).expect_err("what is refused is not signed either");
}

#[test]
fn an_archive_has_one_form() {
    let key = key();
    let refused = |unsigned: &[u8]| open(&signed_anyhow(unsigned, &key), &[key.public()]).unwrap_err();
    let tar = bundle(7).to_tar();
    let mut owned = tar.clone();
    let mut header = Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&tar[..512]);
    header.set_uid(1000);
    header.set_cksum();
    owned[..512].copy_from_slice(header.as_bytes());
    assert_eq!(refused(&owned), BundleError::NotCanonical);
    let behind = [&tar[..], &[7; 512], &[0; super::archive::END_BYTES]].concat();
    assert_eq!(refused(&behind), BundleError::NotCanonical);
    let mut broken = tar;
    broken[0] ^= 1;
    assert!(matches!(refused(&broken), BundleError::Archive(_)));
    assert_eq!(
        open(&vec![0; MAX_BUNDLE_BYTES + 1], &[key.public()]),
        Err(BundleError::TooLarge)
    );
}

#[test_case(r#"{"format": 2, "more": 1}"#, "it has the format 2, and this mcpmon reads 1"; "another format")]
#[test_case("{", "manifest.json is wrong"; "no JSON")]
#[test_case(r#"{"format": 1, "serial": 1, "created": "2026-01-01T00:00:00Z", "files": [], "hook": "x"}"#, "unknown field `hook`"; "another field")]
#[test_case(r#"{"format": 1, "serial": 0, "created": "2026-01-01T00:00:00Z", "files": []}"#, "serial 0 is not from 1"; "no serial")]
#[test_case(r#"{"format": 1, "serial": 9007199254740992, "created": "2026-01-01T00:00:00Z", "files": []}"#, "is not from 1"; "the end of serials")]
#[test_case(r#"{"format": 1, "serial": -1, "created": "2026-01-01T00:00:00Z", "files": []}"#, "manifest.json is wrong"; "below zero")]
#[test_case(r#"{"format": 1, "serial": 1, "name": "a/b", "created": "2026-01-01T00:00:00Z", "files": []}"#, "`name` has letters"; "a name")]
#[test_case(r#"{"format": 1, "serial": 1, "created": "yesterday", "files": []}"#, "manifest.json is wrong"; "no time")]
fn a_manifest_is_refused(text: &str, expected: &str) {
    let refused = Manifest::parse(text).unwrap_err();
    assert!(refused.to_string().contains(expected), "{refused}");
}

#[test]
fn serials_never_go_back() {
    let key = key();
    let opened = |bundle: Bundle| open(&sign(&bundle.to_tar(), &key).unwrap(), &[key.public()]).unwrap();
    let seventh = opened(bundle(7));
    let last = Some(seventh.id());
    assert_eq!(seventh.check_serial(None), Ok(Succession::Newer));
    assert_eq!(seventh.check_serial(last), Ok(Succession::Same));
    assert_eq!(opened(bundle(8)).check_serial(last), Ok(Succession::Newer));
    let older = opened(bundle(6)).check_serial(last);
    assert_eq!(older, Err(BundleError::Older { serial: 6, last: 7 }));
    let other = Manifest {
        name: Some("laptops".to_owned()),
        ..manifest(7)
    };
    let other = opened(Bundle::new(other, files()).unwrap());
    let expected = BundleError::SameSerial {
        serial: 7,
        last: seventh.digest,
    };
    assert_eq!(other.check_serial(last), Err(expected));
    let known = BundleId {
        serial: 7,
        digest: other.digest,
    };
    assert_eq!(other.check_serial(Some(known)), Ok(Succession::Same));

    assert_eq!(other.check_name(Some("laptops")), Ok(()));
    assert_eq!(other.check_name(None), Ok(()));
    let refused = other.check_name(Some("servers")).unwrap_err().to_string();
    assert!(
        refused.contains("the bundle `laptops`, and this host takes `servers`"),
        "{refused}"
    );
    seventh
        .check_name(Some("laptops"))
        .expect_err("one without a name");
}

#[test]
fn a_bundle_ends_with_its_time() {
    let key = key();
    let expires = "2027-01-01T00:00:00Z";
    let manifest = Manifest {
        expires: Some(expires.parse().unwrap()),
        ..manifest(7)
    };
    let bytes = sign(&Bundle::new(manifest, files()).unwrap().to_tar(), &key).unwrap();
    let opened = open(&bytes, &[key.public()]).unwrap();
    assert_eq!(
        opened.check_expiry("2026-12-31T23:59:59Z".parse().unwrap()),
        Ok(())
    );
    let refused = opened.check_expiry(expires.parse().unwrap()).unwrap_err();
    assert!(refused.to_string().contains(expires), "{refused}");
}

#[test]
fn keys_are_those_of_openssl() {
    // `openssl genpkey -algorithm ed25519`, and the last 32 bytes of `openssl pkey -pubout -outform DER`: RFC 8410, section 10.
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    let key = BundleKey::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(
        key.public().to_string(),
        "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
    );
    assert_eq!(key.public().to_string().parse(), Ok(key.public()));
    let shown = format!("{key:?}");
    assert_eq!(
        shown,
        format!("BundleKey({})", key.public()),
        "no secret is shown"
    );
    for wrong in [
        "",
        "ed25519:",
        "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
        "ed25519:AAAA",
    ] {
        wrong.parse::<PublicKey>().expect_err("no key");
    }
    BundleKey::from_pem(b"secret").expect_err("no key");
    BundleKey::from_pem(pem.replace("MC4CAQ", "MC4CAR").as_bytes()).expect_err("no key");
}
