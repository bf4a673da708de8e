package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core/internal/authoring"
)

// ErrEncoding is matched by the error of [Once] if fn's result can't be encoded, or if what is on
// record is no T.
var ErrEncoding = errors.New("keyturn: the result can't be encoded or decoded")

// Do is [Engine.Do] for a function with a result. The result is fn's whenever fn ran, whatever the
// error; otherwise it is the zero T.
func Do[T any](ctx context.Context, eng *Engine, key string, fn func(context.Context) (T, error), opts ...CallOption) (T, error) {
	var result T
	var run func(context.Context) error
	if fn != nil {
		run = func(ctx context.Context) (err error) {
			result, err = fn(ctx)
			return err
		}
	}
	err := eng.Do(ctx, key, run, opts...)
	return result, err
}

// Once is [Engine.Once] for a function with a result of type T, which is recorded as JSON. A repeat
// gets the recorded result. If T is []byte, the bytes are recorded as they are.
//
// The errors are those of [Engine.Once]. With ErrResultNotKept the result is the zero T. An error
// that matches [ErrEncoding] says of a first call that fn ran and that nothing was recorded, so a
// repeat runs it again; of a repeat, that the record has something else.
func Once[T any](ctx context.Context, eng *Engine, key string, fn func(context.Context) (T, error), opts ...CallOption) (T, error) {
	var result T
	var run func(context.Context) ([]byte, error)
	if fn != nil {
		run = func(ctx context.Context) (stored []byte, err error) {
			if result, err = fn(ctx); err != nil { // with ErrSkipResult nothing is kept, so it need not be JSON
				return nil, err
			}
			stored, wrong := authoring.Encode(result)
			if wrong != nil {
				return nil, fmt.Errorf("%w: of %q: %w", ErrEncoding, eng.ShowKey(key), wrong)
			}
			return stored, nil
		}
	}
	out, err := eng.Once(ctx, key, run, opts...)
	if err == nil && out.Duplicate {
		if wrong := authoring.Decode(out.Result, &result); wrong != nil {
			err = fmt.Errorf("%w: of %q: %w", ErrEncoding, eng.ShowKey(key), wrong)
		}
	}
	return result, err
}
