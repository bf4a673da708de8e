// Package httprule applies a rule to an HTTP request, for lockhttp, and by it for lockecho and lockgin.
// It knows where values come from, how a response is kept back until the lock is released, what is
// stored of a response, and how it comes back.
//
// # A slow client keeps no key
//
// The body is read to its end before the key is asked for, and the response is kept back until
// the lock is released (spool.go). Each has 64 KiB in memory and the rest in
// a temporary file. The file has already lost its name, so nothing is left of it however the
// process ends. A body is read once: a key, a fingerprint or an inner rule reads what is kept.
// All files of a process have 1 GiB together; otherwise slow clients could fill everybody's
// disk. A body without room is refused before its handler runs. A response without room is
// sent while the lock is held: its handler has done the work, and an error would help nobody.
//
// # The response is kept back
//
// It is also kept back because only after the release is it known whether it may be sent. A response
// over 64 MiB, a flushed one, an event stream and a connection that was taken over pass
// through at once. After a loss they are broken off. Each piece that is sent under the lock
// has a write deadline, which is removed after the piece, because HTTP/2 resets a stream whose
// deadline passes while nobody writes. If the server or the handler set deadlines, those
// count. Echo's handler writes to an echo.Response of its own, so nothing has to be undone in
// the one that outer middleware knows.
//
// # Idempotency-Key
//
// It is Once with a key of method, route, caller and header value.
//
//   - A function that says who calls is required: without one, anybody who guesses a key gets
//     another caller's response.
//   - A sub-router of chi tells only its own part of the pattern, so the missing front part is
//     taken from the path.
//   - The fingerprint covers path, query and body, so a key belongs to one request within its
//     route.
//   - The header's value is a string of RFC 9651. Text without quotes, which most clients
//     send, is the same key.
//   - The record's key is a digest: a caller may be known by a token that should not be in a
//     store.
//   - A second request during the first one is refused at once; WithMaxWait lets it wait.
//   - A response that cannot be stored (too large, streamed, or no response at all) is a
//     result that is not kept.
package httprule
