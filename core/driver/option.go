package driver

// Configure applies options, which are functions, to a configuration that has the defaults. It returns
// the errors of all options, with an [*OptionError] for each that is nil. name is the function that was
// given the options, such as "New".
func Configure[C any, O ~func(*C) error](cfg *C, name string, opts []O) (errs []error) {
	for _, o := range opts {
		err := error(&OptionError{Option: name, Value: nil, Want: "options that are not nil"})
		if o != nil {
			err = o(cfg)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// CheckOption returns an [*OptionError] with the name, the value and what is wanted, unless ok.
func CheckOption(ok bool, name string, value any, want string) error {
	if ok {
		return nil
	}
	return &OptionError{Option: name, Value: value, Want: want}
}
