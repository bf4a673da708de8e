// Package driver is the contract between package core and a store. Programs that only
// take locks do not need it: they open a store and pass it to core.New.
//
// A store implements [Store], and says in its [Description] what it can do: other modes
// than exclusive, remembering finished executions ([Ledger]), showing and breaking locks
// ([Inspector]). The numbered sentences in the comments are the contract; package
// core/drivertest has a test for each. The engine does what is the same for every store:
// validation, the line of callers within a process, renewal, deadlines, re-entrance,
// contexts and hooks.
//
// Package core exports the types and errors that its users need under the same names.
package driver
