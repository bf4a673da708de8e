package core

import (
	"context"
	"log/slog"
)

// WithLogger has the engine write to log. There is one thing that it logs today,
// at level warn: that a lease or a record was taken away by force
// ([Engine.ForceRelease], [Engine.Forget]), or that it may have been. All else is
// for observers to tell. nil, and the default: slog.Default() at that moment.
func WithLogger(log *slog.Logger) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.log = log
		return nil
	})
}

// warn writes one line.
func (e *Engine) warn(ctx context.Context, msg string, args ...any) {
	log := e.log
	if log == nil {
		log = slog.Default()
	}
	log.WarnContext(ctx, msg, args...)
}
