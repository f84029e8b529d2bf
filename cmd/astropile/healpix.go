package main

import (
	"github.com/spf13/cobra"

	"astropile/internal/sky"
)

func newHealpixCommand(a *app) *cobra.Command {
	order := sky.MaxOrder
	cmd := &cobra.Command{
		Use:   "healpix [--order K]",
		Short: "Turn positions into HEALPix pixels (NESTED)",
		Long: `Read pairs of little-endian float64 (ra, dec in degrees) from standard input and write one little-endian int64 each,
the HEALPix pixel (NESTED) at the order given.`,
		Example: `  python -c 'import numpy as np; np.array([[150.1, 2.2]]).tofile("/dev/stdout")' | astropile healpix --order 4 | od -t d8`,
		Hidden:  true,
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return sky.Stream(a.in, a.out, order)
		},
	}
	cmd.Flags().IntVar(&order, "order", order, "HEALPix order, 0 to 29")
	return cmd
}
