package lockjson

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Lock is one key. Make it with [Of].
type Lock struct {
	Key string `json:"key"`
	// Mode is that of the holders: "exclusive", "shared" or "permit"; "" without a holder.
	Mode    string   `json:"mode"`
	Holders []Holder `json:"holders"` // in order of their tokens
	Waiters []Waiter `json:"waiters"` // in order of arrival
	Record  *Record  `json:"record"`  // null: there is none
}

// Process is the process of an owner. It is empty for a foreign client, whose owner is any text.
type Process struct {
	Owner string `json:"owner"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
}

// Trace is what an owner's engine has noted of its trace.
type Trace struct {
	Trace   string `json:"trace"`    // as the engine wrote it
	TraceID string `json:"trace_id"` // 32 hexadecimal digits, if the trace is a traceparent of W3C; otherwise ""
}

// Holder is a lease in force.
type Holder struct {
	Process
	Token uint64 `json:"token"` // 0 for a foreign client
	Rule  string `json:"rule"`
	Trace
	SinceMS *int64 `json:"since_ms"` // how long ago it was granted; null for a foreign client
	LeftMS  *int64 `json:"left_ms"`  // how long it lasts unless it is renewed
	Lingers bool   `json:"lingers"`  // it may be kept by its process without being used
}

// Waiter is a request that waits.
type Waiter struct {
	Process
	Mode    string `json:"mode"`
	Permits int    `json:"permits"` // how many leases it wants to be in force at most; 0 for the other modes
	Rule    string `json:"rule"`
	Trace
	WaitedMS int64 `json:"waited_ms"`
}

// Record is what Once remembers, without the result itself.
type Record struct {
	Process
	ResultBytes int  `json:"result_bytes"`
	ResultKept  bool `json:"result_kept"`
	Trace
	LeftMS int64 `json:"left_ms"`
}

// Of returns info as it is written.
func Of(info driver.LockInfo) Lock {
	l := Lock{Key: info.Key, Holders: make([]Holder, len(info.Holders)), Waiters: make([]Waiter, len(info.Waiters))}
	if len(info.Holders) > 0 {
		l.Mode = info.Mode.String()
	}
	for i, h := range info.Holders {
		l.Holders[i] = Holder{
			Process: ProcessOf(h.Owner), Token: h.Token, Rule: h.Rule, Trace: TraceOf(h.Trace), Lingers: h.Lingers,
			SinceMS: known(h.HeldFor, h.HeldFor > 0 || h.Token > 0), LeftMS: known(h.Left, h.Left >= 0),
		}
	}
	for i, w := range info.Waiters {
		l.Waiters[i] = Waiter{
			Process: ProcessOf(w.Owner), Mode: w.Mode.String(), Permits: w.Permits, Rule: w.Rule, Trace: TraceOf(w.Trace),
			WaitedMS: w.Waited.Milliseconds(),
		}
	}
	if r := info.Record; r != nil {
		l.Record = &Record{
			Process: ProcessOf(r.Owner), ResultBytes: r.Size, ResultKept: !r.ResultNotKept, Trace: TraceOf(r.Trace),
			LeftMS: r.Left.Milliseconds(),
		}
	}
	return l
}

// known returns d in milliseconds, or nil if it is not known.
func known(d time.Duration, is bool) *int64 {
	if !is {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// ProcessOf reads an owner.
func ProcessOf(owner string) Process {
	o, err := driver.ParseOwner(owner)
	if err != nil {
		return Process{Owner: owner} // a foreign client's
	}
	return Process{Owner: owner, Host: o.Host, PID: o.PID}
}

// TraceOf reads the trace of a holder, waiter or record.
func TraceOf(text string) Trace { return Trace{Trace: text, TraceID: traceID(text)} }

// traceID returns the trace id in a traceparent, version-traceid-spanid-flags in lower case hex.
func traceID(text string) string {
	const version, id, span, flags = 2, 32, 16, 2
	if len(text) < version+1+id+1+span+1+flags || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return ""
	}
	zero := true
	for _, c := range []byte(text[3:35]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if zero {
		return "" // W3C: an invalid id
	}
	return text[3:35]
}
