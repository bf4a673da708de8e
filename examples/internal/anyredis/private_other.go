//go:build !unix

package anyredis

import "context"

// private is for Unix alone.
func private(context.Context, string) (*Redis, error) { return embedded() }
