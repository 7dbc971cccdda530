//! Uploads in parts that never ended. A service keeps their parts, and charges for them, until they are
//! aborted.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use object_store::aws::AmazonS3;
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpRequestBody};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{Error, Result};
use reqwest::Method;

use super::answers::Refusal;

/// How long the signature of the one request is valid.
const VALID: Duration = Duration::from_secs(300);

/// An upload that has not ended.
#[derive(Debug, PartialEq, Eq)]
struct Begun {
    key: String,
    id: String,
    time: Timestamp,
}

/// Aborts the uploads below `prefix` that began longer than `age` ago, of which a service lists at most a
/// thousand. Returns how many.
pub(super) async fn abort(
    s3: &AmazonS3,
    client: &HttpClient,
    prefix: &Path,
    age: Duration,
) -> Result<u64> {
    let Some(listed) = list(s3, client, prefix).await? else { return Ok(0) };
    let now = Timestamp::try_from(SystemTime::now()).map_err(generic)?;
    let mut count = 0;
    for Begun { key, id, time } in begun(&listed) {
        let is_ours = Path::parse(&key).ok().filter(|path| path.prefix_matches(prefix));
        if let Some(path) = is_ours
            && now.duration_since(time).unsigned_abs() >= age
            && time < now
        {
            s3.abort_multipart(&path, &id).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// The service's answer, unless it knows no such request, and so no uploads.
async fn list(s3: &AmazonS3, client: &HttpClient, prefix: &Path) -> Result<Option<String>> {
    let below = if prefix.as_ref().is_empty() { String::new() } else { format!("{prefix}/") };
    let query = [("uploads", String::new()), ("prefix", below)];
    let options = SignedUrlOptions::default().with_query(query);
    let url = s3.signed_url_opts(Method::GET, &Path::default(), VALID, &options).await?;
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url.as_str().parse().map_err(generic)?;
    match read(client, request).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if super::is_unknown_request(&error) => Ok(None),
        Err(error) => Err(generic(error)),
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
