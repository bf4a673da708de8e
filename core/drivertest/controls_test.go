package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// controls are the ways to be wrong, and the checks that have to say so.
var controls = []struct {
	defect   string
	rejected []string // names of checks
}{
	{"everybody gets the key", []string{
		"A1 one lease per key at a time", "A1 one lease per key at a time, holders dying",
	}},
	{"keys are trimmed", []string{"A1 keys are told apart"}},
	{"keys are folded", []string{"A1 keys are told apart"}},
	{"keys end at 500 bytes", []string{"A1 keys are told apart"}},
	{"leases end early", []string{
		"A2 a grant lasts its TTL", "A2 a grant lasts its TTL, nobody waiting", "A2 a grant after a wait lasts its TTL",
	}},
	{"leases end late", []string{
		"A2 a grant lasts its TTL", "A2 a grant lasts its TTL, nobody waiting", "A2 a grant after a wait lasts its TTL",
	}},
	{"leases never end", []string{"A2 a grant lasts its TTL", "A2 a grant lasts its TTL, nobody waiting"}},
	{"leases of waiters never end", []string{"A2 a grant after a wait lasts its TTL"}},
	{"the lease counts from the answer", []string{"A2 a grant counts from before it was asked for"}},
	{"the lease counts from the call", []string{"A2 a grant after a wait lasts its TTL"}},
	{"the lease counts from nothing", []string{"A2 a grant after a wait lasts its TTL"}},
	{"the lease counts from the future", []string{"R1 a release frees the key"}},
	{"a first term is longer than the TTL", []string{"A2 a grant lasts its TTL", "R1 a release frees the key"}},
	{"a first term counts from nothing", []string{"A2 a grant lasts its TTL", "R1 a release frees the key"}},
	{"grants name another TTL", []string{"R1 a release frees the key"}},
	{"tokens are zero", []string{"A3 tokens rise"}},
	{"each process counts tokens", []string{
		"A1 one lease per key at a time", "A1 one lease per key at a time, holders dying", "A3 tokens rise",
	}},
	{"tokens are random", []string{"A3 tokens rise"}},
	{"a token per holder, not per grant", []string{"A3 tokens rise", "A6 waiters are served in order of arrival"}},
	{"tokens are a counter", []string{"A3 tokens go with the clock", "A3 tokens rise after the data is lost"}},
	{"tokens are the clock with ten bits more", []string{"A3 tokens are exact as doubles"}},
	{"reserved tokens are given to others", []string{"A13 reserved tokens are the grant's alone"}},
	{"one token more than wanted is reserved", []string{"A13 no more tokens are reserved than wanted"}},
	{"a second request has nothing reserved", []string{"A13 an owner that asks again has as many reserved"}},
	{"reservations outrun the clock", []string{"A13 reserved tokens do not outrun the clock"}},
	{"borrowers choose the hand-offs", []string{"N7 a borrower's hand-offs are the owner's at most"}},
	{"tokens are the clock in ms", []string{"A3 tokens go with the clock"}},
	{"the owner is refused its own key", []string{"A4 idempotent by owner", "A4 idempotent by owner, asked at the same time"}},
	{"a second request gets a second token", []string{"A4 idempotent by owner", "A4 idempotent by owner, asked at the same time"}},
	{"a second request waits in line", []string{"A4 idempotent by owner"}},
	{"a second request extends nothing", []string{"A4 idempotent by owner"}},
	{"nobody is refused at once", []string{"A5 refused at once without Wait"}},
	{"refusals are untyped", []string{"A5 refused at once without Wait"}},
	{"refusals name the wrong holder", []string{"A5 refused at once without Wait"}},
	{"refusals name no key", []string{"A5 refused at once without Wait"}},
	{"contention is an outage", []string{
		"A5 refused at once without Wait", "A8 a wait behind a holder ends as held",
	}},
	{"last come, first served", []string{
		"A6 waiters are served in order of arrival", "A6 waiters are served in order after an expiry",
		"A6 without order, nobody starves",
	}},
	{"requests overtake the line", []string{
		"A6 waiters are served in order of arrival", "A6 waiters are served in order after an expiry",
	}},
	{"waiters that gave up stay", []string{"A7 a waiter that gave up is skipped", "A9 an error leaves nothing behind", "A9 a cancel that meets the grant leaves nothing behind"}},
	{"waiters of a closed process stay", []string{"A7 a waiter whose process closed is skipped"}},
	{"dead waiters stay", []string{"A7 a waiter whose process died is skipped"}},
	{"a wait ends with the context's error", []string{"A8 a wait behind a holder ends as held", "A7 a waiter that gave up is skipped"}},
	{"an outage during a wait is contention", []string{"A8 a wait for a silent backend ends as unavailable"}},
	{"the refused stay in line", []string{"A9 an error leaves nothing behind"}},
	{"a request that got no answer takes the key for ever", []string{"A9 an outage leaves nothing behind for longer than the TTL"}},
	{"refusals count from the renewal", []string{"A12 a refusal counts from the grant"}},
	{"waiters are told when they have gone", []string{"A14 a waiter is told before its request ends"}},
	{"an outage is contention", []string{"A10 an outage is unavailable within the bound, never held", "A8 a wait for a silent backend ends as unavailable"}},
	{"an outage is the context's error", []string{"A10 an outage is unavailable within the bound, never held"}},
	{"an outage outlasts the context", []string{"A10 an outage is unavailable within the bound, never held"}},
	{"Close changes nothing", []string{"A11 closed after Close", "C1 Close ends waits with ErrClosed"}},
	{"Close cancels waits", []string{"C1 Close ends waits with ErrClosed"}},
	{"Close releases leases", []string{"C2 Close releases no lease"}},

	{"renewals do nothing", []string{"N1 a renewal gives a full TTL", "N2 lost means lost"}},
	{"failures come back alone", []string{"N1 one error per grant, in order"}},
	{"failures come back first", []string{"N1 one error per grant, in order", "N4 failures do not spread"}},
	{"a loss is just an error", []string{"N2 lost means lost", "R2 a lost lease is reported"}},
	{"an outage is a loss", []string{"N2 an outage is no loss", "R3 a release without an answer can be repeated"}},
	{"an outage is success", []string{"N2 an outage is no loss", "R3 a release without an answer can be repeated"}},
	{"renewals bring leases back", []string{"N3 a renewal brings nothing back", "N2 lost with the backend's data"}},
	{"renewals take leases over", []string{"N3 a renewal touches no other owner's lease"}},
	{"a failed renewal extends", []string{"N3 a renewal touches no other owner's lease"}},
	{"owners are compared by prefix", []string{
		"N3 a renewal touches no other owner's lease", "R2 a release touches no other owner's lease", "L4 a lost lease stores nothing",
	}},
	{"owners are not compared", []string{
		"N3 a renewal touches no other owner's lease", "R2 a release touches no other owner's lease", "L4 a lost lease stores nothing",
	}},
	{"the first failure ends a renewal", []string{"N1 one error per grant, in order", "N4 failures do not spread"}},
	{"one failure fails all", []string{"N1 one error per grant, in order", "N4 failures do not spread"}},
	{"releases do nothing", []string{"R1 a release frees the key", "R1 a release lets the next waiter in"}},
	{"a release leaves the line to the clock", []string{
		"R1 a release lets the next waiter in", "A6 waiters are served in order of arrival", "A6 without order, all who wait are served",
	}},
	{"a release never fails", []string{"R2 a lost lease is reported", "R2 a release touches no other owner's lease"}},
	{"borrowers shorten leases", []string{
		"N7 a borrower's renewal ends no lease sooner", "N7 a borrower's renewal ends no shared lease sooner",
		"N7 a borrower's renewal ends no permit sooner",
	}},
	{"borrowers choose the TTL", []string{
		"N7 a borrower's TTL is the owner's at most", "N7 a borrower's TTL is the owner's at most, shared",
		"N7 a borrower's TTL is the owner's at most, of a permit", "N7 a lease that was waited for can be borrowed",
		"N7 a set can be borrowed, in part too",
	}},
	{"borrowers renew nothing", []string{
		"N7 a borrower's renewal keeps the lease", "N7 a borrower's renewal keeps a shared lease",
	}},
	{"the first TTL is the owner's last", []string{
		"N7 the owner's last TTL is what counts", "N7 the owner's last TTL is what counts, shared",
	}},
	{"a second request keeps the first TTL", []string{
		"N7 the TTL of a repeated request is what counts", "N7 the TTL of a repeated request is what counts, shared",
	}},
	{"a downgrade keeps the first TTL", []string{"N7 a downgraded lease can be borrowed"}},
	{"a release nobody answered poisons the lease", []string{"R3 a release without an answer can be repeated"}},
	{"a release wakes all", []string{"R4 a release wakes one waiter"}},
	{"a release serves two", []string{"R4 a release wakes one waiter"}},

	{"readers come one at a time", []string{"M1 shared leases are in force together", "S1 a set of every mode"}},
	{"readers do not keep writers out", []string{
		"M1 shared and exclusive exclude each other", "M1 readers and writers do not overlap",
		"M1 readers and writers do not overlap, holders dying",
	}},
	{"one permit too many", []string{"M1 at most N permits are in force"}},
	{"permits are not counted", []string{
		"M1 at most N permits are in force", "M1 at most N permits are in force, in a crowd",
		"M6 N changes from process to process",
	}},
	{"permits pass readers", []string{"M3 a permit does not pass a reader that waits"}},
	{"permits do not count for other modes", []string{
		"M1 permits and exclusive exclude each other", "M1 permits and shared exclude each other",
	}},
	{"readers overtake writers", []string{
		"M2 readers get behind a writer that waits", "M2 a stream of readers keeps no writer out",
	}},
	{"permits overtake", []string{
		"M2 permits get behind a writer that waits", "M6 a request with a small N is not overtaken",
		"A6 permits and writers in order of arrival",
	}},
	{"writers go before readers", []string{
		"M3 all readers that wait enter after a writer, the first writer after them", "M3 phases after an expiry",
		"M3 a stream of writers keeps no reader out", "M3 readers enter after the last permit",
	}},
	{"one reader enters per phase", []string{
		"M3 all readers that wait enter after a writer, the first writer after them", "M3 phases after an expiry",
		"M3 readers enter after the last permit",
	}},
	{"one reader's end is that of all", []string{"M4 a reader that is not renewed ends alone", "M4 a permit that is not renewed ends alone"}},
	{"a reader's renewal is all readers'", []string{"M4 a reader that is not renewed ends alone"}},
	{"permits of the dead count", []string{
		"M4 a permit that is not renewed ends alone", "M4 a dead holder of a permit costs the next its TTL",
	}},
	{"leases never end", []string{"M4 a dead reader costs a writer its TTL", "S1 a set whose process died holds nothing for longer than the TTL"}},
	{"a downgrade gets a token", []string{"M5 a downgraded lease is shared, under its token"}},
	{"a downgrade changes nothing", []string{
		"M5 a downgraded lease is shared, under its token", "M5 a downgrade lets waiting readers in, and no writer",
	}},
	{"a downgrade lets nobody in", []string{
		"M5 a downgrade lets waiting readers in, and no writer",
	}},
	{"an unanswered downgrade is undone", []string{"M8 an unanswered downgrade leaves the lease held"}},
	{"a downgrade leaves a gap", []string{"M5 a downgrade leaves no gap"}},
	{"a downgrade extends nothing", []string{"M5 a downgraded lease lasts its TTL", "M5 a set of every mode is downgraded"}},
	{"a downgrade ends with the first of a set", []string{"M5 a set of every mode is downgraded"}},
	{"a downgrade takes what is free", []string{"M7 a downgrade brings nothing back", "I9 what is left of a set is not shared, and can be released"}},
	{"a downgrade ignores the token", []string{"M7 a downgrade is the owner's, and turns no other mode"}},
	{"a downgrade turns any mode", []string{"M7 a downgrade is the owner's, and turns no other mode"}},
	{"any mode turns into any other", []string{"A4 another mode for the same owner is refused"}},
	{"N is that of the first", []string{"M6 N is the request's own"}},
	{"a second request gets a second token", []string{
		"A4 a reader that asks again is one reader", "A4 a permit asked for again is one permit", "A4 a set asked for again is one set",
	}},
	{"waiters that gave up stay", []string{
		"A7 readers enter when the writer before them gives up", "A7 permits enter when the writer before them gives up",
		"A9 a reader that gave up leaves nothing behind", "S1 a set that gave up holds nothing",
	}},
	{"dead waiters stay", []string{"A7 a writer whose process died keeps no reader out"}},
	{"a wait ends with the context's error", []string{"A8 a reader's wait ends as held"}},
	{"owners are not compared", []string{"R2 a release touches no other reader's lease"}},
	{"renewals ignore the token", []string{"N5 a renewal compares the token"}},
	{"renewals ignore the mode", []string{"N5 a renewal compares the mode", "M5 a downgraded lease is shared, under its token"}},

	{"a refused set keeps what it got", []string{"S1 a set that is refused holds nothing"}},
	{"a set that gives up keeps what it got", []string{"S1 a set that gave up holds nothing"}},
	{"a waiting set does not look back", []string{"S1 a set that waits keeps what it has"}},
	{"a release leaves the line to the clock", []string{"S1 a set that waits gets all of its claims"}},
	{"sets have no order", []string{"S1 transfers never wait for each other for ever"}},
	{"each claim of a set has its token", []string{"S2 one token, above those of each key"}},
	{"a set's token is the first's alone", []string{"S2 one token, above those of each key"}},
	{"a part of a set is nobody's", []string{"N5 a part of a set is renewed"}},
	{"a part of a set is renewed", []string{"N6 a set of which one claim is lost is lost"}},
	{"a set is renewed at its first key only", []string{"N1 a renewal extends all claims of a set"}},
	{"a set is released at its first key only", []string{"R1 a release frees all claims of a set"}},
	{"a broken set is not released", []string{"R5 a release frees what is left of a set"}},
	{"a broken set is released like any", []string{"R5 a release frees what is left of a set"}},

	{"permits pass readers", []string{"M2 permits get behind a reader that waits"}},

	{"releases ignore the token", []string{"A to R, random programs do what the model does"}},
	{"renewals ignore the mode", []string{"A to R, random programs do what the model does"}},
	{"last come, first served", []string{"A to R, random programs do what the model does"}},
	{"permits overtake", []string{"A to R, random programs do what the model does"}},
	{"one permit too many", []string{"A to R, random programs do what the model does"}},
	{"writers go before readers", []string{"A to R, random programs do what the model does"}},
	{"one reader enters per phase", []string{"A to R, random programs do what the model does"}},
	{"borrowers choose the TTL", []string{"A to R, random programs do what the model does"}},
	{"a set's token is the first's alone", []string{"A to R, random programs do what the model does"}},
	{"a forced release reverses the line", []string{"A to R, random programs do what the model does"}},
	{"Complete keeps the lease", []string{"A to R, random programs do what the model does"}},
	{"the last version counts", []string{"A to R, random programs do what the model does"}},
	{"versions are not forgotten", []string{"A to R, random programs do what the model does"}},

	{"a free key is an error", []string{"I1 a key that nobody wants is no error"}},
	{"holders show no token", []string{"I2 an exclusive holder, and what it says of itself"}},
	{"a renewal is a new lease", []string{"I2 an exclusive holder, and what it says of itself"}},
	{"notes are trimmed", []string{"I2 notes come back as they were"}},
	{"notes end at a bar", []string{"I2 notes come back as they were"}},
	{"notes of waiters are lost", []string{"I2 notes come back as they were"}},
	{"holders are shown as they come", []string{"I2 readers in order of their tokens"}},
	{"each claim of a set has its token", []string{"I2 holders of permits, and a set's at each of its keys"}},
	{"leases never end", []string{"I2 what is over is not shown"}},
	{"the refused stay in line", []string{"I2 what is over is not shown"}},
	{"waiters are shown by name", []string{"I3 waiters in order of arrival"}},
	{"waiters count from when they were seen", []string{"I3 waiters in order of arrival"}},
	{"readers are shown last", []string{"I3 waiters of every mode in order of arrival"}},
	{"dead waiters stay", []string{"I3 a waiter whose process died is not shown"}},
	{"traces of records are lost", []string{"I4 the record in force"}},
	{"records never end", []string{"I4 the record in force"}},
	{"what was not kept is empty", []string{"I4 that a result was not kept"}},
	{"a page skips one", []string{"I5 a listing has all keys with the prefix"}},
	{"a listing has one page", []string{"I5 a listing has all keys with the prefix"}},
	{"free keys are listed", []string{"I5 a listing has all keys with the prefix"}},
	{"a prefix is a pattern", []string{"I5 a prefix is not a pattern"}},
	{"only what is held is listed", []string{"I5 a listing has waiters and records, and ends while keys come and go"}},
	{"a listing blocks the backend", []string{"I6 others are served during a listing"}},
	{"a forced release gives no reason", []string{"I7 a forced release tells who had the key, and its owner why"}},
	{"a forced release says nothing of holders", []string{"I7 a forced release tells who had the key, and its owner why"}},
	{"a forced release keeps the lease", []string{
		"I7 a forced release tells who had the key, and its owner why", "I8 the first waiter gets the key, with a greater token",
	}},
	{"a forced release ends whatever there is", []string{
		"I11 another's lease is left alone", "I11 of several readers one is ended", "I11 a permit that is ended makes room",
	}},
	{"a forced release goes by the owner alone", []string{"I11 another's lease is left alone"}},
	{"a forced release needs a token", []string{"I11 the expected lease is ended, and its owner told why"}},
	{"one of the forced is told", []string{"I7 all readers are told"}},
	{"a forced release of nothing finds nobody", []string{"I7 a forced release of a free key is none"}},
	{"tokens restart after a forced release", []string{
		"I7 a forced release tells who had the key, and its owner why", "I8 the first waiter gets the key, with a greater token",
	}},
	{"a forced release reverses the line", []string{"I8 the first waiter gets the key, with a greater token"}},
	{"writers go before readers", []string{"I8 waiting readers, and the line after them"}},
	{"a part of a set is renewed", []string{"I9 a set of which one key is forced is lost"}},
	{"a forced release keeps the sets", []string{"I9 a set of which one key is forced is lost"}},
	{"nothing is forgotten", []string{"I10 a record that is forgotten makes room for the next"}},
	{"what is forgotten is released", []string{"I10 a lease is not touched"}},

	{"Begin forgets to look up", []string{"L1 a record is returned, without a lease", "L2 waiters get the record"}},
	{"a grant comes with the record", []string{"L1 a record is returned, without a lease"}},
	{"Begin looks up first, then claims", []string{"L1 lookup and claim are one step", "L2 waiters get the record"}},
	{"Complete keeps the lease", []string{"L1 a record is returned, without a lease"}},
	{"records end at once", []string{"L2 waiters get the lease when there is no record"}},
	{"a lost lease's record is kept", []string{"L4 a lost lease stores nothing"}},
	{"Complete can't be repeated", []string{"L5 Complete is idempotent by owner"}},
	{"anybody completes again", []string{"L5 Complete is idempotent by owner"}},
	{"records end with the lease", []string{"L6 a record lasts its retention"}},
	{"records never end", []string{"L6 a record lasts its retention"}},
	{"results are text", []string{"L7 records come back byte for byte"}},
	{"fingerprints are trimmed", []string{"L7 records come back byte for byte"}},
	{"results are cut", []string{"L7 records come back byte for byte"}},
	{"records keep the caller's memory", []string{"L7 records come back byte for byte"}},
	{"records give out their memory", []string{"L7 records come back byte for byte"}},
	{"what was not kept is empty", []string{"L7 a record says that its result was not kept"}},

	{"the last version counts", []string{"L9 the greatest version so far is returned", "L9 versions never fall behind what was returned"}},
	{"one version for all keys", []string{"L9 the greatest version so far is returned"}},
	{"versions are read, then written", []string{"L9 versions never fall behind what was returned"}},
	{"versions are compared as text", []string{"L10 versions are numbers of 64 bits"}},
	{"versions are floating point", []string{"L10 versions are numbers of 64 bits"}},
	{"versions are signed", []string{"L10 versions are numbers of 64 bits"}},
	{"a question is a version", []string{"L10 version 0 only asks"}},
	{"versions never end", []string{"L11 a version lasts its retention"}},
	{"versions last as the first said", []string{"L11 a version lasts its retention"}},
	{"a version leaves the lease free", []string{"L12 leases and records keep out of it"}},
	{"a version is a record", []string{"L12 leases and records keep out of it"}},
	{"Close changes nothing for versions", []string{"L13 versions after Close"}},
	{"an outage of versions is the context's error", []string{"L13 versions in an outage"}},
	{"versions are not forgotten", []string{"I10 a version that is forgotten is raised anew"}},
}

// TestModel is the negative control: what is right passes.
func TestModel(t *testing.T) {
	b := newBackend("")
	h := b.harness()
	h.Around = func(t *testing.T, test func(*testing.T)) {
		b.lose() // every bubble's clock begins at the same time
		synctest.Test(t, test)
	}
	Run(t, h)
}

func TestDefectsAreRejected(t *testing.T) {
	for _, control := range controls {
		t.Run(control.defect, func(t *testing.T) {
			for _, c := range checks() {
				if !slices.Contains(control.rejected, original(c.name)) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						failures := verdict(t, c, newBackend(control.defect).harness())
						if len(failures) == 0 {
							t.Error("passed")
						}
						for _, failure := range failures {
							t.Log(failure)
						}
					})
				})
			}
		})
	}
}

// TestEveryCheckRejects: a check that no control fails may not check anything.
func TestEveryCheckRejects(t *testing.T) {
	known, rejects := map[string]bool{}, map[string]bool{}
	for _, c := range checks() {
		if known[c.name] {
			t.Errorf("two checks are called %q", c.name)
		}
		known[c.name] = true
	}
	for _, control := range controls {
		for _, name := range control.rejected {
			if !known[name] {
				t.Errorf("%q is to be rejected by %q, which does not exist", control.defect, name)
			}
			rejects[name] = true
		}
	}
	for name := range known {
		if !rejects[original(name)] {
			t.Errorf("nothing is rejected by %q", name)
		}
	}
}

// original is the name of the check that is made again under another.
func original(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "L3 Begin "), "M1 one permit: ")
}

// verdict makes one check and returns its complaints.
func verdict(t *testing.T, c check, h Harness) []string {
	judge := &standIn{TB: t}
	done := make(chan struct{})
	go func() { // a check may end by ending its goroutine
		defer close(done)
		c.run(newScene(judge, h.withDefaults(h.New(judge).Describe()), c))
	}()
	<-done
	return judge.complaints
}

// standIn takes a test's complaints, so that they fail nothing.
type standIn struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (j *standIn) Errorf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
}

func (j *standIn) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	runtime.Goexit()
}

func (j *standIn) Fatal(args ...any) { j.Fatalf("%s", fmt.Sprint(args...)) }

func (j *standIn) Failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.complaints) > 0
}
