//! The nginx of the distribution, which terminates TLS in front of a collector: with a certificate from a test
//! authority, and only for clients that have a token.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::{
    background::{Background, free_address},
    skip,
};

/// A running nginx.
#[derive(Debug)]
pub struct TlsEnd {
    process: Background,
    directory: TempDir,
}

impl TlsEnd {
    /// Starts an nginx that forwards requests with this bearer token to `inner`, a URL. Returns `None`, and says so, if
    /// nginx is not installed.
    ///
    /// # Errors
    /// Returns an error if nginx does not come up, or if it is not installed and `CI=true` says that it must be.
    pub fn before(inner: &str, token: &str) -> Result<Option<Self>> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/nginx/usr/sbin/nginx");
        if !program.exists() {
            skip::for_lack("target/tools/nginx is not there: `cargo xtask test` unpacks it")?;
            return Ok(None);
        }
        let directory = TempDir::new()?;
        for authority in ["authority", "other"] {
            let root = ["-addext", "basicConstraints=critical,CA:TRUE"];
            certificate(directory.path(), authority, &root)?;
        }
        let path = |name: &str| directory.path().join(name).display().to_string();
        let issued = ["-CA", &path("authority.pem"), "-CAkey", &path("authority.key")];
        let of_host = [
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ];
        certificate(
            directory.path(),
            "server",
            &[issued.as_slice(), &of_host].concat(),
        )?;
        let address = free_address()?;
        let here = directory.path().display();
        let configuration = format!(
            "daemon off; master_process off; pid {here}/pid; error_log stderr;\n\
             events {{}}\n\
             http {{\n\
               access_log off; client_max_body_size 64m;\n\
               client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;\n\
               uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
               server {{\n\
                 listen {address} ssl; ssl_certificate server.pem; ssl_certificate_key server.key;\n\
                 location / {{\n\
                   if ($http_authorization != \"Bearer {token}\") {{ return 401; }}\n\
                   proxy_pass {inner};\n\
                 }}\n\
               }}\n\
             }}\n"
        );
        fs::write(path("nginx.conf"), configuration)?;
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-p", &here.to_string(), "-c", &path("nginx.conf")]);
        let process = Background::start(&mut command, address, directory.path().join("log"))?;
        Ok(Some(Self { process, directory }))
    }

    /// Returns the endpoint as it is written in a policy.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.process.address)
    }

    /// Returns the file of the authority that issued the certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Returns the file of another authority.
    #[must_use]
    pub fn other_authority(&self) -> PathBuf {
        self.directory.path().join("other.pem")
    }

    /// Returns nginx's output.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// Makes a certificate and its key, in files of this name.
fn certificate(directory: &Path, name: &str, options: &[&str]) -> Result<()> {
    let file = |kind: &str| directory.join(format!("{name}.{kind}"));
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
        .args(options)
        .arg("-out")
        .arg(file("pem"))
        .arg("-keyout")
        .arg(file("key"))
        .output()
        .context("openssl is needed")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
