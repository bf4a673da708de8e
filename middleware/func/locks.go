package lockfunc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// Locks puts rules around functions, and lists them. It is safe for concurrent use. Make one
// with [New].
type Locks struct {
	eng     *core.Engine
	codec   Codec
	list    *list
	handler ErrorHandler
}

// ErrorHandler answers refused calls in the service's own way: it returns the call's error.
// refused.Answer is the default, and so is nil. Errors of functions do not come here.
type ErrorHandler func(ctx context.Context, refused *reasons.Refusal) error

// WithErrorHandler returns Locks whose functions answer refusals by h. Names and the list are those
// of l.
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks {
	return &Locks{eng: l.eng, codec: l.codec, list: l.list, handler: h}
}

// New makes Locks on an engine's locks. A nil engine is an error of [Serialize] and [Once].
func New(eng *core.Engine) *Locks {
	return &Locks{eng: eng, codec: jsonCodec{}, list: &list{}}
}

// WithCodec returns Locks whose functions store results with c. Names and the list are those
// of l. A nil codec is an error of [Serialize] and [Once]. Default: encoding/json.
func (l *Locks) WithCodec(c Codec) *Locks {
	if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		c = nil
	}
	return &Locks{eng: l.eng, codec: c, list: l.list, handler: l.handler}
}

// Coverage lists the functions that have rules, in the order in which they got them.
func (l *Locks) Coverage() []coverage.Target {
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	return slices.Clone(l.list.all)
}

// list is the list of functions with a rule.
type list struct {
	mu  sync.Mutex
	all []coverage.Target
}

// add refuses a name that is taken. Reports could not tell the two functions apart, and a
// program that decorates a function per call would fill the memory.
func (l *list) add(t coverage.Target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.all, func(o coverage.Target) bool { return o.Name == t.Name }) {
		return fmt.Errorf("lockfunc: %w", &core.OptionError{Option: "func", Value: t.Name, Want: "a name of its own"})
	}
	l.all = append(l.all, t)
	return nil
}

// Codec makes bytes of a result and back, as the functions of encoding/json do. It must be
// safe for concurrent use.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// ErrCodec is matched by the error of a function whose result can't be stored, or whose
// stored result can't be read. See [Once].
var ErrCodec = errors.New("lockfunc: the result can't be encoded or decoded")

func codecError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %q: %w", ErrCodec, key, err)
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
