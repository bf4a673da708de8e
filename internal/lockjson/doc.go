// Package lockjson is the JSON of what a store knows of its keys. The keyturn command prints it with
// -o json, and the console serves it below api/: so both have the same names and units, which are
// a part of their contract.
//
//	{
//	  "key": "group:7",
//	  "mode": "exclusive",
//	  "holders": [{"owner": "a/4242/1/...", "host": "a", "pid": 4242, "token": 17, "rule": "", "trace": "",
//	               "trace_id": "", "since_ms": 1500, "left_ms": 28500, "lingers": false}],
//	  "waiters": [{"owner": "b/77/1/...", "host": "b", "pid": 77, "mode": "shared", "permits": 0, "rule": "",
//	               "trace": "", "trace_id": "", "waited_ms": 1200}],
//	  "record": {"owner": "...", "host": "a", "pid": 4242, "result_bytes": 12, "result_kept": true,
//	             "trace": "", "trace_id": "", "left_ms": 86400000}
//	}
//
// Every field is always there. Times are whole milliseconds by the backend's clock, counted from the
// moment when the store was asked. They are null if they are unknown.
//
// Everything here is for operators: nothing of it may reach the callers of a service.
package lockjson
