//! Unfinished multipart uploads. A service keeps their parts, and charges for them, until they are aborted.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use object_store::aws::AmazonS3;
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpRequestBody};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{Error, Result};
use reqwest::{Method, Url};

use super::PROBE;
use super::answers::Refusal;

/// How long the signature of the one request is valid.
const VALID: Duration = Duration::from_secs(300);

/// The directories of a repository's objects, as docs/format.md lists them. `config` lies in none of
/// them and is too short to be sent in parts.
const DIRECTORIES: [&str; 11] = [
    "bundles",
    "clients",
    "containers",
    "epochs",
    "index",
    "intents",
    "keys",
    "logs",
    "marks",
    "receipts",
    "snapshots",
];

/// The hexadecimal digits of an object's id.
const ID_DIGITS: usize = 32;

/// Requests for lists of uploads, which `object_store` cannot make.
#[derive(Debug)]
pub(super) struct Lister {
    pub(super) client: HttpClient,
    /// The URL of the bucket, if requests are not signed.
    pub(super) unsigned: Option<String>,
}

/// An upload that has not ended.
#[derive(Debug, PartialEq, Eq)]
struct Begun {
    key: String,
    id: String,
    time: Timestamp,
}

/// Aborts the uploads of the repository at `prefix` that began longer than `age` ago, at most the thousand
/// that a service lists. Returns their number. Uploads of other names belong to other programs and continue.
pub(super) async fn abort(
    s3: &AmazonS3,
    lister: &Lister,
    prefix: &Path,
    age: Duration,
) -> Result<u64> {
    let Some(listed) = lister.list(s3, prefix).await? else { return Ok(0) };
    let now = Timestamp::try_from(SystemTime::now()).map_err(generic)?;
    let mut count = 0;
    for Begun { key, id, time } in begun(&listed) {
        if let Some(path) = Path::parse(&key).ok().filter(|path| is_ours(path, prefix))
            && now.duration_since(time).unsigned_abs() >= age
            && time < now
        {
            s3.abort_multipart(&path, &id).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// Whether `path` is the name of an object that the repository at `prefix` may have: `DIRECTORY/ID` or
/// `DIRECTORY/XX/ID`, or the probe.
fn is_ours(path: &Path, prefix: &Path) -> bool {
    let Some(parts) = path.prefix_match(prefix) else { return false };
    let parts: Vec<_> = parts.collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    let (directory, id) = match parts[..] {
        [PROBE] => return true,
        [directory, id] => (directory, id),
        [directory, digits, id] if digits.len() == 2 && id.starts_with(digits) => (directory, id),
        _ => return false,
    };
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    DIRECTORIES.contains(&directory) && id.len() == ID_DIGITS && id.bytes().all(is_digit)
}

impl Lister {
    /// The service's answer, unless it knows no such request, and so no uploads.
    async fn list(&self, s3: &AmazonS3, prefix: &Path) -> Result<Option<String>> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = self.url(s3, prefix).await?.parse().map_err(generic)?;
        match read(&self.client, request).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if super::is_unknown_request(&error) => Ok(None),
            Err(error) => Err(generic(error)),
        }
    }

    /// The URL that lists the uploads below `prefix`.
    async fn url(&self, s3: &AmazonS3, prefix: &Path) -> Result<String> {
        let below = if prefix.as_ref().is_empty() { String::new() } else { format!("{prefix}/") };
        let query = [("uploads", String::new()), ("prefix", below)];
        if let Some(bucket) = &self.unsigned {
            let url = Url::parse_with_params(bucket, query).map_err(generic)?;
            // A service may take a plus for itself.
            return Ok(url.as_str().replace('+', "%20"));
        }
        let options = SignedUrlOptions::default().with_query(query);
        let url = s3.signed_url_opts(Method::GET, &Path::default(), VALID, &options).await?;
        Ok(url.into())
    }
}

async fn read(client: &HttpClient, request: HttpRequest) -> std::result::Result<String, HttpError> {
    let answer = client.execute(request).await?;
    let status = answer.status();
    let body = answer.into_body().bytes().await?;
    match status.is_success() {
        true => Ok(String::from_utf8_lossy(&body).into_owned()),
        false => Err(Refusal::error(status.as_u16(), &body)),
    }
}

fn generic(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic { store: "S3", source: Box::new(error) }
}

/// The uploads in the answer of a service. Those without a key, an id or a time are left out.
fn begun(listed: &str) -> Vec<Begun> {
    let uploads = listed.split("<Upload>").skip(1);
    let text = |upload: &str, name: &str| {
        let (_, rest) = upload.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(unescaped(text))
    };
    uploads
        .filter_map(|upload| {
            let time = text(upload, "Initiated")?.parse().ok()?;
            Some(Begun { key: text(upload, "Key")?, id: text(upload, "UploadId")?, time })
        })
        .collect()
}

/// The text that XML writes with references to its own characters.
fn unescaped(text: &str) -> String {
    let of = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    of.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_repository_are_its_own() {
        let id = "0123456789abcdef0123456789abcdef";
        let is_ours = |path: &str, prefix: &str| {
            super::is_ours(&Path::parse(path).unwrap(), &Path::parse(prefix).unwrap())
        };
        for directory in DIRECTORIES {
            assert!(is_ours(&format!("{directory}/{id}"), ""), "{directory}");
            assert!(is_ours(&format!("a/b/{directory}/{id}"), "a/b"), "{directory}");
        }
        assert!(is_ours(&format!("containers/01/{id}"), ""));
        assert!(is_ours("PROBE", "") && is_ours("a/PROBE", "a") && !is_ours("b/PROBE", "a"));
        for other in [
            format!("a/containers/01/{id}"),
            format!("containers/02/{id}"),
            format!("containers/0/{id}"),
            format!("containers/01/01/{id}"),
            format!("videos/{id}"),
            format!("logs/{}", id.to_uppercase()),
            format!("logs/{}", &id[1..]),
            format!("logs/{id}0"),
            "logs/2026-11-25.gz".to_owned(),
            "containers".to_owned(),
            id.to_owned(),
        ] {
            assert!(!is_ours(&other, ""), "{other}");
            assert!(!is_ours(&format!("a/{other}"), "a"), "{other}");
        }
        assert!(!is_ours(&format!("ab/containers/{id}"), "a"));
    }

    #[test]
    fn uploads_are_read_from_the_answer_of_a_service() {
        let listed = "<?xml version=\"1.0\"?><ListMultipartUploadsResult><Bucket>b</Bucket>\
            <Prefix>p/</Prefix><Upload><Key>p/a&amp;lt;b/c</Key><UploadId>1&gt;2</UploadId>\
            <Initiator><ID>x</ID></Initiator><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>\
            <Upload><Key>p/untimed</Key><UploadId>3</UploadId></Upload>\n\
            <Upload>\n<Initiated>2026-01-02T03:04:06Z</Initiated><Key>p/d</Key>\
            <UploadId>4</UploadId></Upload></ListMultipartUploadsResult>";
        let begun = begun(listed);
        let expected = [("p/a&lt;b/c", "1>2", 1_767_323_045), ("p/d", "4", 1_767_323_046)];
        let expected = expected.map(|(key, id, time)| Begun {
            key: key.into(),
            id: id.into(),
            time: Timestamp::from_second(time).unwrap(),
        });
        assert_eq!(begun, expected);
    }
}
