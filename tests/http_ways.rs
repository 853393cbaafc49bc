//! The ways to a source over HTTP: certificates, proxies, and what `check` says of them.

#![allow(clippy::unwrap_used)]

#[path = "support/standing.rs"]
mod standing;
#[path = "support/relay.rs"]
mod support;
#[path = "support/web.rs"]
mod web;

use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use standing::Trial;
use support::{Place, Relay};
use web::Web;

/// A server's settings for a certificate of this host, and the authority that made it.
fn certified(host: &str) -> (Arc<ServerConfig>, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let settings = settings.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (Arc::new(settings), authority.pem())
}

fn secure(web: &Web, settings: &str) -> String {
    format!("[source.web]\nurl = \"https://localhost:{}/mcp\"\n{settings}\n", web.port)
}

#[test]
fn a_company_s_own_authority_is_trusted_where_it_is_named() {
    let (settings, authority) = certified("localhost");
    let web = Web::start_tls(settings, web::legacy, |_, _| false);
    let place = Place::new();
    place.write("ca.pem", authority);
    let mut relay = Trial::start_in(&place, "", &[secure(&web, "ca_file = 'ca.pem'")]);
    assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    relay.finish();
}

#[test]
fn a_certificate_that_cannot_be_trusted_is_told() {
    let (settings, _) = certified("localhost");
    let web = Web::start_tls(settings, web::legacy, |_, _| false);
    let mut relay = Relay::greeted("", &[secure(&web, "")]);
    let (kind, text) = relay.call("web", "echo", json!({})).failure();
    assert_eq!(kind, "unavailable");
    assert!(text.contains("no secure connection comes about") && text.contains("`ca_file`"), "{text}");
    assert!(web.seen().is_empty());
    relay.finish();
    let (settings, authority) = certified("example.org");
    let web = Web::start_tls(settings, web::legacy, |_, _| false);
    let place = Place::new();
    place.write("ca.pem", authority);
    let mut relay = Relay::greeted_in(&place, "", &[secure(&web, "ca_file = 'ca.pem'")]);
    let (_, text) = relay.call("web", "echo", json!({})).failure();
    assert!(text.contains("no secure connection comes about"), "{text}");
    relay.finish();
}

#[test]
fn a_file_of_authorities_that_is_none_is_told() {
    for (written, told) in [(None, "No such file"), (Some("x"), "holds no certificate")] {
        let place = Place::new();
        if let Some(text) = written {
            place.write("ca.pem", text);
        }
        let source = "[source.web]\nurl = \"https://localhost:1/mcp\"\nca_file = 'ca.pem'\n".to_owned();
        let mut relay = Relay::greeted_in(&place, "", &[source]);
        let (kind, text) = relay.call("web", "echo", json!({})).failure();
        assert_eq!(kind, "unavailable");
        assert!(text.contains("ca.pem") && text.contains(told), "{text}");
        relay.finish();
    }
}

/// A relay with these variables in its environment.
fn relay(sources: &[String], environment: &[(&str, String)]) -> Trial {
    let place = Place::new();
    let mut command = Trial::command(&place, "", sources);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    Trial::spawn(&place, command, sources)
}

const FAR: &str = "http://mcp.example.invalid/mcp";

#[test]
fn a_proxy_is_used_where_one_is_named() {
    let proxy = Web::start(web::legacy, |_, _| false);
    let at = proxy.url("");
    let configured = format!("[source.web]\nurl = \"{FAR}\"\nproxy = \"{at}\"\n");
    let plain = format!("[source.web]\nurl = \"{FAR}\"\n");
    for (source, environment) in
        [(&configured, vec![]), (&plain, vec![("HTTP_PROXY", at.clone())]), (&plain, vec![("http_proxy", at.clone())])]
    {
        let before = proxy.seen().len();
        let mut relay = relay(std::slice::from_ref(source), &environment);
        assert_eq!(relay.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}), "{environment:?}");
        relay.finish();
        let seen = &proxy.seen()[before..];
        assert!(seen.iter().all(|seen| seen.path == FAR && seen.header("host") == Some("mcp.example.invalid")));
    }
}

#[test]
fn what_needs_no_proxy_is_reached_without_one() {
    let proxy = Web::start(web::legacy, |_, _| false);
    let web = Web::start(web::legacy, |_, _| false);
    let mut near = relay(&[web.source("web", "")], &[("HTTP_PROXY", proxy.url(""))]);
    assert_eq!(near.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    near.finish();
    let far = format!("[source.web]\nurl = \"{FAR}\"\n");
    let environment = [("HTTP_PROXY", proxy.url("")), ("NO_PROXY", "example.invalid".to_owned())];
    let mut far = relay(&[far], &environment);
    assert!(far.call("web", "echo", json!({})).failure().1.contains("cannot be reached"));
    far.finish();
    // Nor by a proxy that is named: what listens here is not reached through another machine.
    let mut named = relay(&[web.source("web", &format!("proxy = \"{}\"", proxy.url("")))], &[]);
    assert_eq!(named.call("web", "echo", json!({"a": 1})).structured(), json!({"a": 1}));
    named.finish();
    assert!(proxy.seen().is_empty());
    let mut dead = relay(&[format!("[source.web]\nurl = \"{FAR}\"\nproxy = \"http://127.0.0.1:1\"\n")], &[]);
    let (_, text) = dead.call("web", "echo", json!({})).failure();
    dead.finish();
    assert!(text.contains("no connection through its `proxy` comes about") && text.contains("check `proxy`"), "{text}");
}

fn toolrelay(arguments: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_toolrelay")).args(arguments).env_remove("TOOLRELAY_CONFIG").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn the_commands_take_sources_over_http() {
    let web = Web::start(web::legacy, |seen, out| {
        let locked = seen.path == "/locked";
        if locked {
            out.reply(401, &[], "");
        }
        locked
    });
    let place = Place::new();
    let locked = format!("[source.locked]\nurl = \"{}\"\n", web.url("/locked"));
    let config = place.config("", &[web.source("web", ""), locked]);
    let run = |arguments: &[&str]| toolrelay(&[arguments, &["--config", &config]].concat());
    let (code, text) = run(&["check", "--connect", "--json"]);
    assert_ne!(code, 0);
    let report: Value = serde_json::from_str(text.split("\nerror").next().unwrap()).unwrap();
    let line = |id: &str| report["sources"].as_array().unwrap().iter().find(|line| line["id"] == id).unwrap().clone();
    assert_eq!((&line("web")["state"], &line("web")["revision"]), (&json!("ready"), &json!("2025-11-25")));
    assert_eq!(line("locked")["state"], "needs_auth", "{report}");
    assert_eq!(run(&["call", "web", "echo", "{\"a\":1}"]).0, 0);
    assert!(run(&["tools"]).1.contains("echo"));
    assert!(run(&["sources"]).1.contains("web"));
}

#[test]
fn credentials_in_the_clear_are_warned_of() {
    let place = Place::new();
    let source = |url: &str| format!("[source.a]\nurl = \"{url}\"\nauth = 'bearer'\ntoken = 'literal-token-5'\n");
    for (url, warned) in
        [("http://example.org/mcp", true), ("http://localhost:1/mcp", false), ("https://example.org/", false)]
    {
        let config = place.config("", &[source(url)]);
        let (code, text) = toolrelay(&["check", "--config", &config]);
        assert_eq!((code, text.contains("warning: its credentials go over plain http://")), (0, warned), "{text}");
        assert!(!text.contains("literal-token-5"));
    }
}
