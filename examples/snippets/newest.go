package snippets

import (
	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// snippet

// newIndexer drops a task if a newer version of the document has been indexed.
func newIndexer(eng *core.Engine) (*lockasynq.Locks, error) {
	return lockasynq.New(eng, lockasynq.Serialize("index", "doc:{payload.id}").KeepLatestBy("{payload.version}"))
}

// end snippet
