package fence

import "strings"

// A call whose COMMIT had no answer may find a mark: its own, or that of a call that came after the
// rollback. So each call signs its mark, behind the trace and a line break, which no trace has.

// traceBytes is what the column of the trace holds.
const traceBytes = 255

// sign adds the signature of call to a trace. It drops a trace that leaves no room.
func sign(trace, call string) string {
	signature := "\n" + call
	if len(trace)+len(signature) > traceBytes {
		return signature
	}
	return trace + signature
}

// signed splits what sign has made. call is "" if nobody has signed it.
func signed(text string) (trace, call string) {
	trace, call, _ = strings.Cut(text, "\n")
	return trace, call
}
