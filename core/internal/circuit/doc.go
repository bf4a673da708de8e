// Package circuit decides whether the store is worth asking. While the store is out, a
// [Breaker] refuses requests for leases at once. Otherwise callers would pile up, each waiting
// for a timeout. The breaker lets one request at a time through, to find out whether the store
// is back. If a store has parts that fail independently, each part has a state of its own. The
// package knows the errors of package driver. It does not know the engine, the callers in line
// or the leases.
//
// Silence opens a circuit, not a number of failures: requests keep failing, and nothing has been
// answered for 2 s since the first of them was sent (WithCircuit). What does not open it:
//
//   - a broken connection, which can fail fifty requests at once;
//   - one sick shard among healthy ones, if the store does not tell its parts apart (below): a
//     request that was sent before the last answer does not count;
//   - a caller's cancel, a deadline that left the store less than 0.1 s, and a grant that came
//     too late.
//
// The answer that the server cannot serve (UnavailableError.Refused: out of memory, too few
// replicas) does not open it either. Callers get that answer soon and with its cause, so
// nothing piles up.
//
// While the circuit is open, one request at a time is let through, the probe, with pauses of
// 0.1 s to 0.5 s after each that fails. A probe that hears nothing for 2 s has failed. A
// grant, a record, a holder in the way, or the answer that the server cannot serve closes the
// circuit. Renewals and releases are always sent. An answer to one of them keeps a closed
// circuit closed, because otherwise one sick key would shut out all callers of a healthy
// store. It does not close an open circuit, because it does not show that the server can
// grant: one that is out of memory still renews and releases. A caller that does not wait for a
// holder waits for a silent store 5 s at most.
//
// # Parts
//
// A store may have parts that fail independently, as the masters of a Cluster do. It names the
// part of a key (Description.Partition), and each part has a circuit of its own. With one
// circuit for all, the answers of healthy masters would keep it closed, and every caller of a
// sick key would wait for its timeout. A set needs the circuits of all its parts: any of them
// may refuse it, and a failure counts for the part that the error names. Renewals go in one
// batch per part, because one silent part delays all answers of its batch. At most 64 circuits
// are kept; closed ones are forgotten first.
package circuit
