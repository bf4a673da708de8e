// Package natsstore keeps leases in a key-value bucket of NATS JetStream, so that services which have a
// NATS need no other server for their locks.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	...
//	st, err := natsstore.New(nc)
//	...
//	eng, err := core.New(st)
//
// It needs servers from version 2.12.3 on (per-message TTLs, and batches that are published as a whole, which
// 2.12.0 refuses when it should not).
// [New] does no I/O. The bucket is made by the first request that misses it, or by an operator: see
// [WithReplicas]. Everything that the contract has is here: modes, sets, records, inspection, linger.
//
// # What is in the bucket
//
// A key that is in use has one entry, whose value is JSON: its holders, its queue, its last token, the
// record of Once, the version of AdvanceVersion. Its name is the key; bytes other than ASCII letters, digits,
// "-", "_" and "/" are "=" and two hex digits. An entry goes by itself, by a TTL of the server's, ten
// minutes after the last thing in it has ended. Until then the next token follows the last one; after
// it, the clock alone makes the tokens.
//
// # A decision
//
// A request reads the entries that it concerns and the time of the stream's leader, at the same time.
// Package keystate decides. What has changed is written on the condition that nobody else has written
// to the entry meanwhile, otherwise the request begins anew. A set is written as one batch, so all
// its entries change or none. So each request is one round trip for the question and one for the write.
//
// Only the leader of the stream answers: with direct reads ("allow_direct") any replica could, with an
// answer that is too old. A leader that has lost its followers may not know it yet. So in a bucket with
// replicas, an answer for which nothing is written (held, lost) counts only if it is read again after a
// write to a subject of its own has reached a majority.
//
// # Waiting
//
// Each store has an inbox, a subject that it listens to. A process that lets a waiter in sends a
// message to the waiter's inbox, and the waiter asks. Messages may be lost. So a waiter also asks when
// the lease in front of it should be over, and three times in its own lease on the place
// ([WithWaiterLease]), which is what ends the place of a waiter that died. A lock that comes to a
// waiter is kept for that long at most until the waiter has asked. A process also sends messages to itself. If
// none arrive, it has no inbox: its waiters ask every 0.15 s, and so does the next one behind it, which it may not be
// able to tell.
//
// # What it costs
//
//	acquire, renew or release one key              two reads at a time (the entry, the leader's time), one write
//	a set of n keys                                n + 1 reads at a time, one batch of n writes
//	hand over to another process                   a release, a message, an acquisition
//	wait, each third of the waiter lease           as an acquisition
//	an answer for which nothing is written         with replicas one more write, and the reads again
//
// Each lease is renewed by itself: 10 000 leases with a TTL of 15 s cost 2000 writes and 4000 reads per second.
// All of a key is one value, written anew with each change, and each process that waits for the key changes it
// three times in its waiter lease. (Callers of one process stand in line before the store.) So some hundred
// processes may wait for one key. On two processors, the server's included, 300 that came together were all
// in the queue after 3 s, and 600 after a minute or two. A value can't be larger than the server's max_payload,
// 1 MB unless it was changed. A result of Once that does not fit is not kept.
//
// # Losses
//
// With one replica, and with the server's default of writing to the disk every two minutes
// (sync_interval), a power failure loses the leases that were granted meanwhile; a killed server loses
// nothing. With three replicas, what a majority has accepted is lost only if a majority loses power.
// sync_interval: always closes both. The clocks of the servers should agree: after a failover the new
// leader's clock says what is over.
//
// # By URL
//
// store/storeurl opens a store that owns its connection:
//
//	nats://USER:PASSWORD@HOST:PORT,HOST/BUCKET?replicas=3&waiter_lease=10s&credentials=FILE
//
// A user without a password is a token; natss is NATS with TLS. Each part but the servers may be left out:
// [WithBucket], [WithReplicas], [WithWaiterLease].
package natsstore
