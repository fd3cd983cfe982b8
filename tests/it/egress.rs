//! The network of a task that names hosts: what real programs in the sandbox reach, and what is written down of it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use agent_batch::clock::Clock;
use agent_batch::egress::{Bounds, Egress, Outside, variables};
use agent_batch::event::{ConnectionFinished, ConnectionResult, Emitter, Event, Kind, Sink};
use agent_batch::redact::Redactor;
use agent_batch::sandbox::{Layers, Network};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Sandbox;
use crate::sandboxed::{cells, has_mounts, is_whole, on_machine};

/// A task that names one host, and one script.
fn task(yaml: &str, script: &str) -> Sandbox {
    let script_of_model = json!([
        { "tool_calls": [{ "name": "Bash", "input": { "command": "bash probe.sh" } }] },
        { "text": "done" },
    ]);
    Sandbox::new()
        .task(&format!(
            "tools: [Bash]\npermissions: {{ mode: bypassPermissions }}\n{yaml}"
        ))
        .script(&script_of_model.to_string())
        .args(&["--allow-bypass"])
        .file("repo/probe.sh", script)
}

#[test]
fn what_the_list_does_not_name_is_refused_denied_and_told() {
    if !is_whole() {
        return;
    }
    let proxy = "exec 3<>/dev/tcp/127.0.0.1/3128; printf";
    let script = format!(
        "ask() {{ ({proxy} \"$1\" >&3; head -1 <&3); }}\n\
         ask 'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n'\n\
         ask 'CONNECT 127.0.0.1:443 HTTP/1.1\\r\\n\\r\\n'\n\
         ask 'CONNECT good.example:80 HTTP/1.1\\r\\n\\r\\n'\n\
         ask 'GET http://good.example/ HTTP/1.1\\r\\n\\r\\n'\n\
         (echo > /dev/tcp/1.1.1.1/443) 2>/dev/null || echo no route\n\
         getent hosts good.example || echo no resolver\n\
         echo $HTTPS_PROXY $CARGO_HTTP_PROXY\n"
    );
    let run = task(
        "sandbox: required\nnetwork: { hosts: [good.example] }\n",
        &script,
    )
    .run()
    .exit(1);
    let said = run.events_of("task", "tool_finished")[0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(said.matches("HTTP/1.1 403 ").count(), 4, "{said}");
    assert!(
        said.contains("no route\nno resolver\nhttp://127.0.0.1:3128 127.0.0.1:3128"),
        "{said}"
    );
    let told = run.events_of("task", "connection_finished");
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(
        told.iter()
            .all(|one| one["result"] == "refused" && one["is_denial"] == true)
    );
    assert_eq!(run.outcome("task"), "denied");
    let summary = run.summary();
    assert_eq!(summary["tasks"][0]["denials"]["total"], 4);
    assert_eq!(
        summary["tasks"][0]["hosts"]["items"][0]["host"],
        "evil.example"
    );
    assert_eq!(
        summary["tasks"][0]["sandbox"]["hosts"],
        json!(["good.example"])
    );
    assert!(run.junit().contains("evil.example"), "{}", run.junit());
    assert!(run.stderr().contains("evil.example"), "{}", run.stderr());
    let page = run.read("agent-batch-results/report.html");
    let row = "<code>evil.example</code> <span class=\"state failed\">1 refused</span>";
    assert!(page.contains(row), "{page}");
}

#[test]
fn a_list_of_hosts_is_read_strictly_and_held_to_the_policy() {
    for (yaml, policy, wrong) in [
        (
            "network: { hosts: ['*.example.org'] }\n",
            "",
            "the host `*.example.org` is not made of",
        ),
        ("network: { hosts: [10.0.0.1] }\n", "", "is an address"),
        ("network: { hosts: [localhost] }\n", "", "is not public"),
        (
            "network: { hosts: ['https://a.example'] }\n",
            "",
            "the host `https://a.example`",
        ),
        ("network: perhaps\n", "", "perhaps"),
        ("network: { host: [a.example] }\n", "", "host"),
        (
            "sandbox: off\nnetwork: { hosts: [a.example] }\n",
            "",
            "only the sandbox can hold",
        ),
        (
            "network: { hosts: [a.example] }\n",
            "policy: { network: deny }\n",
            "the policy allows no network",
        ),
        (
            "network: allow\n",
            "policy: { network: { hosts: [a.example] } }\n",
            "only some hosts",
        ),
        (
            "network: { hosts: [b.example] }\n",
            "policy: { network: { hosts: [a.example] } }\n",
            "does not allow the host `b.example`",
        ),
    ] {
        let run = task(yaml, "true")
            .file(
                "agent-batch.yaml",
                if policy.is_empty() {
                    "defaults: {}\n"
                } else {
                    policy
                },
            )
            .run()
            .exit(2);
        assert!(run.stderr().contains(wrong), "{yaml}: {}", run.stderr());
    }
}

#[test]
fn an_empty_list_is_no_network() {
    if !is_whole() {
        return;
    }
    let script =
        "(echo > /dev/tcp/127.0.0.1/3128) 2>/dev/null || echo nobody; echo \"[$HTTPS_PROXY]\"";
    let run = task("network: { hosts: [] }\n", script).run().exit(0);
    let said = &run.events_of("task", "tool_finished")[0]["content"];
    assert!(said.as_str().unwrap().starts_with("nobody\n[]"), "{said}");
    let started = &run.events_of("task", "task_started")[0]["sandbox"];
    assert_eq!(started["network"], "deny");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_of_its_own_a_task_reaches_no_host() {
    let layers = Layers {
        bubblewrap: None,
        ..Layers::found()
    };
    let yaml = "network: { hosts: [a.example] }\n";
    let (_, events) = on_machine(layers, yaml).await;
    let started = events.iter().find_map(|event| match &event.kind {
        Kind::TaskStarted(started) => Some(&started.sandbox),
        _ => None,
    });
    assert_eq!(started.map(|sandbox| &*sandbox.network), Some("deny"));
    let warned = |kind: &Kind| matches!(kind, Kind::Warned { message, .. } if message.contains("no host is reached"));
    assert!(events.iter().any(|event| warned(&event.kind)), "{events:?}");
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ConnectionFinished>>>);

impl Sink for Told {
    fn accept(&mut self, event: &Event) -> std::io::Result<()> {
        if let Kind::ConnectionFinished(connection) = &event.kind {
            self.0.lock().unwrap().push((**connection).clone());
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_the_sandbox_reaches_a_listed_host_by_tls() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    // Answers whatever begins like TLS with something that does not, which the program shows as its own error.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut record = [0; 5];
            stream.read_exact(&mut record).unwrap();
            assert_eq!(record[0], 22);
            stream.write_all(b"the server's own words\n").unwrap();
        }
    });
    for (name, mut cell) in cells().into_iter().filter(|(_, cell)| has_mounts(cell)) {
        cell.plan.set_network(Network::Hosts);
        let told = Told::default();
        let emitter = Emitter::new(
            "t",
            1,
            Clock::system(),
            Arc::new(Redactor::default()),
            Box::new(told.clone()),
            Vec::new(),
        );
        let names = [("good.example".to_owned(), vec![address.ip()])].into();
        let egress = Arc::new(Egress::new(
            ["good.example".to_owned()],
            Outside::fixed(names, Some(address)),
            Bounds::default(),
            emitter,
        ));
        let mut spec = cell.spec("curl -sS --max-time 60 https://good.example/ 2>&1; echo ended");
        spec.env.extend(variables());
        let finished = cell
            .launcher()
            .through(Arc::clone(&egress))
            .run(
                spec,
                Arc::new(Redactor::default()),
                &CancellationToken::new(),
            )
            .await
            .unwrap();
        let told = told.0.lock().unwrap().clone();
        if finished.stdout.text.contains("command not found") {
            eprintln!("SKIPPED: there is no curl");
            return;
        }
        assert_eq!(told.len(), 1, "{name}: {} {told:?}", finished.stdout.text);
        assert_eq!(
            told[0].result,
            ConnectionResult::Allowed,
            "{name}: {told:?}"
        );
        assert!(told[0].sent_bytes > 100, "{name}: {told:?}");
        assert_eq!(egress.close(), Vec::<String>::new());
    }
}
