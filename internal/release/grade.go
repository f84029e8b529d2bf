package release

// Graded says of an error of package survey which of ours it is: ErrRefused where columns, values, positions or the recipe
// do not fit, ErrDamaged where a file does not decode. Any other error, and nil, it gives back as it is.
func Graded(err error) error {
	if err == nil {
		return nil
	}
	return graded(err)
}
