package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
)

// ErrInvalidVersion: the version of a task whose rule keeps the latest ([Rule.KeepLatestBy]) is
// neither a number nor a time. The task is archived.
var ErrInvalidVersion = errors.New("lockasynq: not a version: want a whole number from 0 to 2^64-1, or a time as in RFC 3339 from 1970 to 2261")

// KeepLatestBy returns the rule with versions: a task is dropped, as if it were done, if a
// newer one of the same key has come to a worker. It is for work that brings something up to
// date, such as an index, where a later request makes earlier ones pointless:
//
//	lockasynq.Serialize("index", "index:{payload.id}").KeepLatestBy("{payload.version}")
//
// The template is one placeholder. Its value is the task's version: a whole number up to
// 2^64-1, or a time as in RFC 3339 from 1970 to 2261, which counts in nanoseconds. A task with
// any other value is archived ([ErrInvalidVersion]). Tasks with the same version all run, one
// after the other. Versions belong to the rule: another rule with the same key has versions of
// its own.
//
// These hold in whatever order tasks come to the workers of a fleet, and also if workers are
// killed:
//
//   - No task runs after one with a greater version of its key has begun.
//   - A task is dropped only for a task with a greater version, which asynq keeps until it is
//     done. If that one fails for good and is archived, or somebody deletes it, the dropped
//     work stays undone: run that task again from the archive, or enqueue a newer one.
//
// A task that waits for its key learns of a newer one when it gets the key, or when its wait is
// over and it comes again. Dropped tasks are logged and counted ([Locks.Skipped]).
//
// The store remembers the greatest version of a key for core.WithRetention after the last task
// that asked, a day by default. That should be longer than a task may be in the queue, with its
// retries and their delays. Otherwise an old task may still run. An old task may also run after
// the store has lost its data. A version that is far too great by mistake keeps all others out.
// [core.Engine.Forget] drops it. Its name is "%newest:<pattern>:<key>", in which a ":" of the pattern is
// "%3A". If that is longer than 512 bytes, the name is "%newest:" and its SHA-256 in hex.
// ([Rule.UniqueUntilStarted] keeps a number under "%waits:" in the same way.)
//
// The rule takes one key, exclusively, and cannot be a rule of Once. It cannot be combined with
// [Skip], which would drop a newer task for an older one that runs, nor with
// core.WithRunUnlocked.
func (r Rule) KeepLatestBy(template string) Rule {
	r.version = template
	r.versioned = true
	return r
}

// KeepLatestFunc is [Rule.KeepLatestBy] with a function that returns the version. An error of
// the function archives the task. It is called from many goroutines.
func (r Rule) KeepLatestFunc(version func(*asynq.Task) (uint64, error)) Rule {
	r.versionFunc = version
	r.versioned = true
	return r
}

// compileVersion returns the function that gets a task's version; nil: the rule has none.
func (r Rule) compileVersion() (func(*request) (uint64, error), error) {
	switch {
	case !r.versioned:
		return nil, nil
	case r.versionFunc != nil:
		return func(req *request) (uint64, error) { return r.versionFunc(req.task) }, nil
	case r.version == "":
		return nil, &core.OptionError{Option: "KeepLatestBy", Value: r.version, Want: "one placeholder, such as {payload.version}, or a function"}
	}
	tmpl, err := keytmpl.Parse(r.version)
	if err != nil {
		return nil, err
	}
	all := tmpl.Placeholders()
	if len(all) != 1 || all[0].String() != r.version || all[0].Multiple() || strings.Contains(r.version, "|") {
		return nil, &core.OptionError{Option: "KeepLatestBy", Value: r.version, Want: "one placeholder and nothing else, such as {payload.version}"}
	}
	source, err := r.bind(all[0])
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", r.version, err)
	}
	return func(req *request) (uint64, error) {
		text, err := source.One(req)
		if err == nil && text == "" {
			err = keytmpl.ErrMissingValue
		}
		if err != nil {
			return 0, fmt.Errorf("version %s: %w", r.version, err)
		}
		return parseVersion(text)
	}, nil
}

func parseVersion(text string) (uint64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if year := at.UTC().Year(); err != nil || year < 1970 || year > 2261 {
		return 0, fmt.Errorf("%w: %.40q", ErrInvalidVersion, text)
	}
	return uint64(at.UnixNano()), nil
}

// superseded is why a task is dropped: there is a newer one.
type superseded struct{ version, newest uint64 }

func (e *superseded) Error() string {
	return fmt.Sprintf("version %d is older than %d", e.version, e.newest)
}

// announce tells the store the task's version, and returns an error if there is a newer one.
// The first call is before the task waits for its key: older tasks give way to this one, and
// this one to a newer one, at once. The second call is under the key, where nothing else runs.
// It decides.
func (w work) announce(ctx context.Context) error {
	if w.versionOf == nil {
		return nil
	}
	newest, err := w.AdvanceVersion(ctx, remembered("newest", w.Name, w.keys.First), w.version)
	if err == nil && newest > w.version {
		err = &superseded{w.version, newest}
	}
	return err
}
